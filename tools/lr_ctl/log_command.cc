#include "tools/lr_ctl/log_command.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "tools/lr_ctl/line_prefixer.h"
#include "tools/lr_ctl/log_reader.h"

namespace lr {
namespace {

constexpr std::chrono::milliseconds kPause{200};

struct OpenLog {
  LogReader reader;
  LinePrefixer prefixer;

  /// Everything there is now; false when that was nothing.
  bool Print() {
    bool some = false;
    for (std::string bytes = reader.Read(); !bytes.empty(); bytes = reader.Read()) {
      fmt::print("{}", prefixer.Add(bytes));
      some = true;
    }
    return some;
  }
};

OpenLog Open(const LogSource& source, bool alone) {
  return {.reader = LogReader(source.path),
          .prefixer = LinePrefixer(alone ? "" : fmt::format("[{}] ", source.name))};
}

bool Exists(const LogSource& source) {
  std::error_code error;
  return std::filesystem::exists(source.path, error);
}

/// Returns when the run has ended and everything is printed.
void Follow(FoundRun run, std::map<std::string, OpenLog>& logs, const LogOptions& options) {
  while (true) {
    const bool ended = run.ended();  // before reading: what was written until then is there
    bool some = false;
    for (auto& [path, log] : logs) {
      some = log.Print() || some;
    }
    static_cast<void>(std::fflush(stdout));
    if (ended && !some) {
      return;
    }
    if (!some) {
      std::this_thread::sleep_for(kPause);
    }
    Result<FoundRun> now = ReadRun(run.directory);
    run = now.ok() ? std::move(now).value() : run;
    if (const auto sources = FindLogSources(run.record, options.request); sources.ok()) {
      for (const LogSource& source : *sources) {  // those of a new attempt are new here
        logs.try_emplace(source.path, Open(source, sources->size() == 1));
      }
    }
  }
}

}  // namespace

Status PrintLogs(const FoundRun& run, const LogOptions& options) {
  LR_ASSIGN(std::vector<LogSource> sources, FindLogSources(run.record, options.request));
  const bool waits = options.follow && !run.ended();
  if (!waits) {
    std::erase_if(sources, [](const LogSource& source) { return !Exists(source); });
  }
  if (sources.empty()) {
    return NotFound("run {}: this output went to no file (--redirects and --tee choose what does)",
                    run.run_id());
  }
  std::map<std::string, OpenLog> logs;
  for (const LogSource& source : sources) {
    OpenLog& log = logs.emplace(source.path, Open(source, sources.size() == 1)).first->second;
    if (options.tail) {
      log.reader.SkipToLast(*options.tail);
    }
    if (!waits) {
      log.Print();
    }
  }
  if (waits) {
    Follow(run, logs, options);
  }
  for (auto& [path, log] : logs) {
    fmt::print("{}", log.prefixer.Finish());
  }
  return {};
}

}  // namespace lr
