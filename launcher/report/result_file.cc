#include "launcher/report/result_file.h"

#include "common/io/atomic_file.h"
#include "launcher/report/ending_json.h"

namespace lr::launcher {
namespace {

constexpr double kSecond = 1e9;  // nanoseconds

/// This node's workers and the failures of all nodes, by rank.
Json EndingsToJson(const RunFacts& facts) {
  std::map<int, WorkerEnding> endings = facts.endings;
  if (facts.outcome) {
    for (const WorkerEnding& failure : facts.outcome->failures) {
      endings.emplace(failure.rank, failure);
    }
  }
  Json workers = Json::array();
  for (const auto& [rank, ending] : endings) {
    workers.push_back(EndingToJson(ending));
  }
  return workers;
}

Json CheckpointToJson(const RunFacts& facts) {
  if (facts.checkpoint_directory.empty()) {
    return Json();
  }
  return {{"step", facts.checkpoint_step}, {"directory", facts.checkpoint_directory}};
}

}  // namespace

std::string OutcomeWord(const RunFacts& facts) {
  if (facts.outcome && facts.outcome->succeeded) {
    return "succeeded";
  }
  if (facts.outcome && facts.outcome->root_cause) {
    return "worker_failed";
  }
  return facts.assignment ? "stopped" : "not_started";
}

Json ResultToJson(const RunFacts& facts) {
  const bool met = facts.assignment.has_value();
  const bool failed = facts.outcome && facts.outcome->root_cause;
  return {
      {"outcome", OutcomeWord(facts)},
      {"exit_code", facts.exit_code},
      {"reason", facts.outcome ? facts.outcome->reason : "a signal ended the join"},
      {"root_cause", failed ? EndingToJson(*facts.outcome->root_cause) : Json()},
      {"workers", EndingsToJson(facts)},
      {"run_id", met ? facts.assignment->run_id : ""},
      {"world_size", met ? facts.assignment->world_size : 0},
      {"restarts", met ? facts.assignment->restart_count : 0},
      {"last_checkpoint", CheckpointToJson(facts)},
      {"run_directory", facts.run_directory},
      {"started_unix", static_cast<double>(facts.started_unix_ns) / kSecond},
      {"duration_s", static_cast<double>(facts.ended_unix_ns - facts.started_unix_ns) / kSecond},
  };
}

Status WriteResultFile(const std::string& path, const RunFacts& facts) {
  return WriteFileAtomic(path, DumpPythonJson(ResultToJson(facts), 2) + "\n");
}

}  // namespace lr::launcher
