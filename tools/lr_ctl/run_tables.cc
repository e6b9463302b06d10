#include "tools/lr_ctl/run_tables.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lr {

namespace {

std::string Text(const Json& json, const char* key) {
  if (!json.contains(key) || json[key].is_null()) {
    return "-";
  }
  return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
}

double Number(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
}

const Json& Workers(const Json& run) {
  static const Json none = Json::array();
  return run.contains("workers") && run["workers"].is_array() ? run["workers"] : none;
}

/// Of all native workers.
struct Training {
  double step = 0;
  double total = 0;
  double loss = 0;  ///< mean
  double rate = 0;  ///< mean samples per second
};

Training TrainingOf(const Json& run) {
  Training all;
  const auto count = static_cast<double>(Workers(run).size());
  for (const Json& worker : Workers(run)) {
    all.step = std::max(all.step, Number(worker, "step"));
    all.total = std::max(all.total, Number(worker, "total_steps"));
    all.loss += Number(worker, "loss") / count;
    all.rate += Number(worker, "samples_per_s") / count;
  }
  return all;
}

/// "done", or "backward for 2 s": a phase is told with its time once that is noticeable.
std::string PhaseText(const Json& worker) {
  if (worker.contains("goodbye") && worker["goodbye"] != "") {
    return Text(worker, "goodbye");
  }
  const double stay = Number(worker, "phase_s");
  return stay < 1 ? Text(worker, "phase")
                  : fmt::format("{} for {:.0f} s", Text(worker, "phase"), stay);
}

/// What the host of the run said last about hangs or stragglers, "hang       no progress of …".
std::string WatchText(const Json& run, const char* key) {
  if (!run.contains(key) || !run[key].is_object()) {
    return "";
  }
  std::string text = Text(run[key], "text");
  const std::string said = fmt::format("{}: ", key);
  return fmt::format("{:<11}{}\n", key, text.starts_with(said) ? text.substr(said.size()) : text);
}

/// Cut to `width` with a dot at the end that says so.
std::string Cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

/// "2026-03-02 10:11:12Z"
std::string UtcTime(const Json& json, const char* key) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z",
                     fmt::gmtime(static_cast<std::time_t>(Number(json, key))));
}

/// Why, as far as it is known; empty: it is not.
std::string Cause(const Json& failure) {
  if (failure.value("stopped_by_launcher", false)) {
    return "stopped by lr-launch";
  }
  std::string cause = failure.value("cause", "");
  if (cause.empty()) {
    return cause;
  }
  cause += failure.value("secondary", false) ? " (a consequence of another end)" : "";
  const std::string evidence = failure.value("evidence", "");
  return evidence.empty() ? cause : cause + ": " + evidence;
}

std::string FailureText(const Json& failure) {
  std::string out = fmt::format("rank {:<5} {}, attempt {}, node {} ({}), {}",
                                Text(failure, "rank"),
                                UtcTime(failure, "ended_unix"),
                                Text(failure, "attempt"),
                                Text(failure, "node_rank"),
                                Text(failure, "host"),
                                Text(failure, "how"));
  if (const std::string cause = Cause(failure); !cause.empty()) {
    out += "\n  cause    " + cause;
  }
  if (const std::string message = failure.value("message", ""); !message.empty()) {
    out += "\n  message  " + message.substr(0, message.find('\n'));
  }
  if (failure.contains("last_lines") && !failure["last_lines"].empty()) {
    out += fmt::format("\n  last lines of {}:",
                       failure.value("last_lines_are_stdout", false) ? "stdout" : "stderr");
    for (const Json& line : failure["last_lines"]) {
      out += "\n    " + line.get<std::string>();
    }
  }
  return out;
}

}  // namespace

std::string RunsTable(const Json& runs) {
  if (runs.empty()) {
    return "no run of yours is on record on this machine";
  }
  std::string out = fmt::format("{:<26} {:<10} {:>5} {:>13} {:>10} {:>9}",
                                "RUN",
                                "STATE",
                                "RANKS",
                                "STEP",
                                "LOSS",
                                "SAMPLES/S");
  for (const Json& run : runs) {
    const Training all = TrainingOf(run);
    const bool trains = all.total > 0;
    out += fmt::format("\n{:<26} {:<10} {:>5} {:>13} {:>10} {:>9}",
                       Cut(Text(run, "run_id"), 26),
                       Text(run, "state"),
                       Text(run, "world_size"),
                       trains ? fmt::format("{:.0f}/{:.0f}", all.step, all.total) : "-",
                       trains ? fmt::format("{:.3f}", all.loss) : "-",
                       all.rate > 0 ? fmt::format("{:.0f}", all.rate) : "-");
  }
  return out;
}

std::string RunDetail(const Json& run) {
  std::string out =
      fmt::format("run        {}\nstate      {}\n", Text(run, "run_id"), Text(run, "state"));
  if (run.contains("reason")) {
    out += fmt::format("reason     {}\n", Text(run, "reason"));
  }
  out += fmt::format("directory  {}\nmaster     {}\n", Text(run, "directory"), Text(run, "master"));
  if (run.contains("last_checkpoint")) {
    out += fmt::format("checkpoint step {}: {}\n",
                       Text(run["last_checkpoint"], "step"),
                       Text(run["last_checkpoint"], "directory"));
  }
  if (run.contains("nodes") && run["nodes"].is_array()) {
    for (const Json& node : run["nodes"]) {
      out += fmt::format("node {:<5} {} ({}), {} workers from rank {}\n",
                         Text(node, "node_rank"),
                         Text(node, "host"),
                         Text(node, "address"),
                         Text(node, "workers"),
                         Text(node, "first_rank"));
    }
  }
  for (const Json& worker : Workers(run)) {
    out += fmt::format("rank {:<5} {:<10} step {:.0f}/{:.0f}  loss {:.3f}  {:.0f} samples/s\n",
                       Text(worker, "rank"),
                       PhaseText(worker),
                       Number(worker, "step"),
                       Number(worker, "total_steps"),
                       Number(worker, "loss"),
                       Number(worker, "samples_per_s"));
  }
  out += WatchText(run, "hang") + WatchText(run, "stragglers");
  out.pop_back();
  return out;
}

std::string StatusLine(const Json& run) {
  const std::string ranks = Text(run, "world_size");
  std::string out = fmt::format("{} {}, {} {}",
                                Text(run, "run_id"),
                                Text(run, "state"),
                                ranks,
                                ranks == "1" ? "rank" : "ranks");
  const Training all = TrainingOf(run);
  if (all.total > 0) {
    out += fmt::format(", step {:.0f}/{:.0f}, loss {:.3f}", all.step, all.total, all.loss);
  }
  if (all.rate > 0) {
    out += fmt::format(", {:.0f} samples/s", all.rate);
  }
  return out + (run.contains("reason") ? ": " + Text(run, "reason") : "");
}

std::string FailuresText(const Json& run) {
  if (!run.contains("failures") || run["failures"].empty()) {
    return fmt::format(
        "run {} ({}) has no failure on record", Text(run, "run_id"), Text(run, "state"));
  }
  std::vector<std::string> parts;
  for (const Json& failure : run["failures"]) {
    parts.push_back(FailureText(failure));
  }
  return Join(parts, "\n");
}

std::string StacksText(const Json& ranks) {
  std::vector<std::string> parts;
  for (const Json& one : ranks) {
    parts.emplace_back(Trim(one.value("text", "")));
  }
  return parts.empty() ? "no rank answered" : Join(parts, "\n\n");
}

}  // namespace lr
