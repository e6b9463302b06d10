#include "tools/lr_ctl/stack_query.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "common/base/text.h"
#include "tools/lr_ctl/run_query.h"

namespace lr {
namespace {

constexpr std::chrono::seconds kLimit{30};  // the launcher gives up after 25 s

bool Answers(const FoundRun& run) {
  return run.alive && !run.ended();
}

Status TakesNoRequests(const FoundRun& run) {
  return FailedPrecondition(
      "run {}: its program is not lr-train, so its lr-launch takes no requests", run.run_id());
}

Status Failure(const FoundRun& run, const grpc::Status& status) {
  return Unavailable("run {}: {}", run.run_id(), status.error_message());
}

Result<RunStacks> AskStacks(const FoundRun& run, std::optional<int> rank) {
  if (run.control_socket().empty()) {
    return TakesNoRequests(run);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  v1::RunStacksRequest request;
  if (rank) {
    request.set_rank(*rank);
  }
  v1::RunStacksReply reply;
  const grpc::Status status = ConnectTo(run)->Stacks(&context, request, &reply);
  if (!status.ok()) {
    return Failure(run, status);
  }
  RunStacks stacks{.ranks = Json::array(), .note = reply.note()};
  for (const v1::StackOfRank& one : reply.stacks()) {
    stacks.ranks.push_back({{"rank", one.rank()}, {"text", one.text()}});
  }
  return stacks;
}

/// "rank_12.txt" -> 12
std::optional<int64_t> RankOfFile(const std::string& name) {
  constexpr std::string_view kBefore = "rank_";
  constexpr std::string_view kAfter = ".txt";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) {
    return std::nullopt;
  }
  return ParseInt(name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size()));
}

/// The newest collection that left files in this run directory.
Result<RunStacks> ReadStacks(const FoundRun& run, std::optional<int> rank) {
  const Json listed = run.record.value("stacks", Json::array());
  if (!listed.is_array() || listed.empty()) {
    return NotFound(
        "run {} is {}, and no stacks were collected while it ran", run.run_id(), run.state());
  }
  const Json& newest = listed.back();
  RunStacks stacks{
      .ranks = Json::array(),
      .note = fmt::format("collected at {:%Y-%m-%d %H:%M:%S}Z ({})",
                          fmt::gmtime(static_cast<std::time_t>(newest.value("unix", int64_t{0}))),
                          newest.value("id", ""))};
  std::error_code error;
  const std::filesystem::path folder = newest.value("directory", "");
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto number = RankOfFile(entry.path().filename().string());
    if (number && rank.value_or(static_cast<int>(*number)) == *number) {
      std::ifstream file(entry.path());
      stacks.ranks.push_back(
          {{"rank", *number}, {"text", std::string(std::istreambuf_iterator<char>(file), {})}});
    }
  }
  std::sort(stacks.ranks.begin(), stacks.ranks.end(), [](const Json& a, const Json& b) {
    return a["rank"].get<int64_t>() < b["rank"].get<int64_t>();
  });
  return stacks;
}

}  // namespace

Result<RunStacks> GetStacks(const FoundRun& run, std::optional<int> rank) {
  LR_ASSIGN(RunStacks stacks, Answers(run) ? AskStacks(run, rank) : ReadStacks(run, rank));
  if (stacks.ranks.empty() && rank) {
    return NotFound("run {} has no stacks of rank {}{}",
                    run.run_id(),
                    *rank,
                    stacks.note.empty() ? "; does it run?" : ": " + stacks.note);
  }
  return stacks;
}

Result<Json> GetStragglers(const FoundRun& run) {
  if (!Answers(run)) {
    const Json last = run.record.value("stragglers", Json());
    return last.is_object() ? Result<Json>(last)
                            : NotFound(
                                  "run {} is {}, and no report was made while it ran (one is "
                                  "made every 5 min)",
                                  run.run_id(),
                                  run.state());
  }
  if (run.control_socket().empty()) {
    return TakesNoRequests(run);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  v1::RunStragglersReply reply;
  const grpc::Status status = ConnectTo(run)->Stragglers(&context, {}, &reply);
  if (!status.ok()) {
    return Failure(run, status);
  }
  return Json{{"text", reply.text()},
              {"ranks", std::vector<int>(reply.ranks().begin(), reply.ranks().end())}};
}

}  // namespace lr
