#include "tools/lr_ctl/log_sources.h"

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr {
namespace {

const Json& List(const Json& record, const char* key) {
  static const Json none = Json::array();
  return record.contains(key) && record[key].is_array() ? record[key] : none;
}

bool Holds(const Json& node, int rank) {
  const int first = node.value("first_rank", 0);
  return rank >= first && rank < first + node.value("workers", 0);
}

Result<Json> ChooseAttempt(const Json& record, std::optional<int> attempt) {
  const Json& logs = List(record, "logs");
  const std::string run = record.value("run_id", "");
  if (logs.empty()) {
    return FailedPrecondition(
        "run {} has no log files on this node; lr-launch writes them with --redirects=3 or --tee=3",
        run);
  }
  if (!attempt) {
    return logs.back();
  }
  std::vector<std::string> there;
  for (const Json& log : logs) {
    there.push_back(fmt::format("{}", log.value("attempt", 0)));
    if (log.value("attempt", 0) == *attempt) {
      return log;
    }
  }
  return NotFound("run {} has no log files of attempt {} on this node, but of {}",
                  run,
                  *attempt,
                  Join(there, ", "));
}

Status RankIsElsewhere(const Json& record, const Json& log, int rank) {
  const std::string run = record.value("run_id", "");
  if (log.value("attempt", 0) != record.value("attempt", 0)) {
    return NotFound(
        "run {}: rank {} was not on this node in attempt {}", run, rank, log.value("attempt", 0));
  }
  for (const Json& node : List(record, "nodes")) {
    if (Holds(node, rank)) {
      return FailedPrecondition("run {}: rank {} is on node {} ({}, {}); its log files are there",
                                run,
                                rank,
                                node.value("node_rank", 0),
                                node.value("host", ""),
                                node.value("address", ""));
    }
  }
  return NotFound(
      "run {} has no rank {}; it has {} ranks", run, rank, record.value("world_size", 0));
}

}  // namespace

Result<std::vector<LogSource>> FindLogSources(const Json& record, const LogRequest& request) {
  LR_ASSIGN(const Json log, ChooseAttempt(record, request.attempt));
  if (request.rank && !Holds(log, *request.rank)) {
    return RankIsElsewhere(record, log, *request.rank);
  }
  std::vector<LogSource> sources;
  for (int local_rank = 0; local_rank < log.value("workers", 0); ++local_rank) {
    const int rank = log.value("first_rank", 0) + local_rank;
    if (request.rank && *request.rank != rank) {
      continue;
    }
    const std::string folder = fmt::format("{}/{}", log.value("directory", ""), local_rank);
    if (request.out) {
      sources.push_back({folder + "/stdout.log", fmt::format("{} stdout", rank)});
    }
    if (request.err) {
      sources.push_back({folder + "/stderr.log", fmt::format("{} stderr", rank)});
    }
  }
  return sources;
}

}  // namespace lr
