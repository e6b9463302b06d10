#include "tools/lr_ctl/run_finder.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "common/base/text.h"

namespace lr {

namespace fs = std::filesystem;

namespace {

std::string TextOf(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

int64_t NumberOf(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0;
}

std::string RunsFolder(const EnvironmentReader& environment) {
  const std::string state = environment("XDG_STATE_HOME").value_or("");
  return state.starts_with('/') ? state + "/lr/runs"
                                : environment("HOME").value_or("") + "/.local/state/lr/runs";
}

bool ProcessExists(int64_t pid) {
  return pid > 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

Status Ambiguous(const std::string& what, const std::vector<FoundRun>& candidates) {
  std::vector<std::string> names;
  names.reserve(candidates.size());
  for (const FoundRun& run : candidates) {
    names.push_back(fmt::format("  {}  {}", run.run_id(), run.state()));
  }
  if (names.empty()) {
    return NotFound("{}; no run of yours is on record here", what);
  }
  return NotFound("{}; runs on this machine:\n{}", what, Join(names, "\n"));
}

}  // namespace

std::string FoundRun::run_id() const {
  return TextOf(record, "run_id");
}

std::string FoundRun::control_socket() const {
  return TextOf(record, "control_socket");
}

std::string FoundRun::state() const {
  const std::string said = TextOf(record, "state");
  const bool told = said == "succeeded" || said == "failed";
  return told || alive ? said : "lost";
}

bool FoundRun::ended() const {
  const std::string now = state();
  return now == "succeeded" || now == "failed" || now == "lost";
}

Result<FoundRun> ReadRun(const std::string& directory) {
  FoundRun run;
  run.directory = directory;
  // A launcher that ended right after the first reading has left its last word by the second.
  for (int reading = 0; reading == 0 || (reading == 1 && run.state() == "lost"); ++reading) {
    LR_ASSIGN(run.record, ReadJsonFile(directory + "/run.json"));
    if (!run.record.is_object()) {
      return DataLoss("'{}/run.json' holds no record", run.directory);
    }
    run.alive = ProcessExists(NumberOf(run.record, "launcher_pid"));
  }
  return run;
}

std::vector<FoundRun> FindRuns(const EnvironmentReader& environment) {
  std::vector<FoundRun> runs;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(RunsFolder(environment), error)) {
    Result<FoundRun> run = ReadRun(entry.path().string());
    if (run.ok()) {
      runs.push_back(std::move(run).value());
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const FoundRun& a, const FoundRun& b) {
    return NumberOf(a.record, "started_unix") > NumberOf(b.record, "started_unix");
  });
  return runs;
}

Result<FoundRun> FindRun(const std::string& what,
                         const EnvironmentReader& environment,
                         WhenNoneIsActive otherwise) {
  std::error_code error;
  if (!what.empty() && fs::is_directory(what, error)) {
    return ReadRun(what).WithContext("'{}' is no run directory", what);
  }
  const std::vector<FoundRun> all = FindRuns(environment);
  std::vector<FoundRun> matching;
  for (const FoundRun& run : all) {
    if (!what.empty() && run.run_id() == what) {
      return run;
    }
    if (what.empty() ? !run.ended() : run.run_id().starts_with(what)) {
      matching.push_back(run);
    }
  }
  if (matching.size() == 1) {
    return matching.front();
  }
  if (what.empty() && matching.empty() && !all.empty() && otherwise == WhenNoneIsActive::kNewest) {
    return all.front();
  }
  if (matching.empty()) {
    return Ambiguous(what.empty() ? "no run is active" : fmt::format("no run '{}'", what), all);
  }
  return Ambiguous(what.empty() ? "several runs are active: name one"
                                : fmt::format("'{}' fits several runs", what),
                   matching);
}

}  // namespace lr
