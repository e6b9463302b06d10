#include "launcher/rendezvous/wire_parts.h"

#include <algorithm>
#include <utility>

#include "launcher/rendezvous/join_check.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher::wire {
namespace {

constexpr int kLargestSignal = 64;
constexpr int64_t kLargestNumber = (int64_t{1} << 48) - 1;  // the workers' agreement has 48 bits
constexpr int64_t kLongestWait = int64_t{7} * 24 * 3600 * 1000;

}  // namespace

Status CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return InvalidArgument("{} is {}, not {} to {}", field, value, low, high);
  }
  return {};
}

Status CheckFolderName(std::string_view field, const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.';
  });
  if (name.empty() || name.size() > kLongestFolderName || name.front() == '.' || !is_plain) {
    return InvalidArgument("{} '{}' is no plain name of at most {} characters",
                           field,
                           name.substr(0, kLongestFolderName),
                           kLongestFolderName);
  }
  return {};
}

void PutEnding(const WorkerEnding& ending, v1::Ending& out) {
  out.set_rank(ending.rank);
  out.set_local_rank(ending.local_rank);
  out.set_node_rank(ending.node_rank);
  out.set_host_name(ending.host_name);
  out.set_pid(ending.pid);
  out.set_exit_code(ending.exit_code);
  out.set_signal(ending.signal);
  out.set_core_dumped(ending.core_dumped);
  out.set_stopped_by_us(ending.stopped_by_us);
  out.set_stopped_early(ending.stopped_early);
  out.set_start_unix_ns(ending.start_unix_ns);
  out.set_end_unix_ns(ending.end_unix_ns);
  out.set_error_file(ending.error_file);
  out.set_message(ending.message.substr(0, kLongestMessage));
  const size_t lines = ending.last_lines.size();
  for (size_t i = lines - std::min<size_t>(lines, kMostLastLines); i < lines; ++i) {
    out.add_last_lines(ending.last_lines[i].substr(0, kLongestLine));
  }
  out.set_last_lines_are_stdout(ending.last_lines_are_stdout);
  out.set_kernel_evidence(ending.kernel_evidence.substr(0, kLongestLine));
}

Result<WorkerEnding> TakeEnding(const v1::Ending& wire) {
  LR_TRY(CheckRange("rank", wire.rank(), 0, kMaxRanks - 1));
  LR_TRY(CheckRange("local rank", wire.local_rank(), 0, kMaxRanks - 1));
  LR_TRY(CheckRange("node rank", wire.node_rank(), 0, kMaxNodes - 1));
  LR_TRY(CheckRange("exit code", wire.exit_code(), 0, kLargestExitCode));
  LR_TRY(CheckRange("signal", wire.signal(), 0, kLargestSignal));
  LR_TRY(CheckRange("number of last lines", wire.last_lines_size(), 0, kMostLastLines));
  WorkerEnding ending;
  ending.rank = wire.rank();
  ending.local_rank = wire.local_rank();
  ending.node_rank = wire.node_rank();
  ending.host_name = wire.host_name();
  ending.pid = wire.pid();
  ending.exit_code = wire.exit_code();
  ending.signal = wire.signal();
  ending.core_dumped = wire.core_dumped();
  ending.stopped_by_us = wire.stopped_by_us();
  ending.stopped_early = wire.stopped_early();
  ending.start_unix_ns = wire.start_unix_ns();
  ending.end_unix_ns = wire.end_unix_ns();
  ending.error_file = wire.error_file();
  ending.message = wire.message();
  ending.last_lines.assign(wire.last_lines().begin(), wire.last_lines().end());
  ending.last_lines_are_stdout = wire.last_lines_are_stdout();
  ending.kernel_evidence = wire.kernel_evidence();
  return ending;
}

void PutOrder(const StopOrder& order, v1::StopOrder& out) {
  out.set_cause(static_cast<v1::StopCause>(order.reason));
  out.set_text(order.text);
  out.set_signal(order.signal);
  out.set_within_ms(order.within_ms);
}

static_assert(static_cast<int>(StopReason::kWorkerFailed) == v1::STOP_CAUSE_WORKER_FAILED &&
              static_cast<int>(StopReason::kNodeLost) == v1::STOP_CAUSE_NODE_LOST &&
              static_cast<int>(StopReason::kHostLost) == v1::STOP_CAUSE_HOST_LOST &&
              static_cast<int>(StopReason::kSignal) == v1::STOP_CAUSE_SIGNAL &&
              static_cast<int>(StopReason::kCancelled) == v1::STOP_CAUSE_CANCELLED &&
              static_cast<int>(StopReason::kMembership) == v1::STOP_CAUSE_MEMBERSHIP &&
              static_cast<int>(StopReason::kHang) == v1::STOP_CAUSE_HANG &&
              static_cast<int>(StopReason::kPreempted) == v1::STOP_CAUSE_PREEMPTED);

Result<StopOrder> TakeOrder(const v1::StopOrder& wire) {
  LR_TRY(CheckRange("stop cause", wire.cause(), 0, v1::StopCause_MAX));
  LR_TRY(CheckRange("signal", wire.signal(), 1, kLargestSignal));
  LR_TRY(CheckRange("time of a stop", wire.within_ms(), 0, kLongestWait));
  return StopOrder{
      static_cast<StopReason>(wire.cause()), wire.text(), wire.signal(), wire.within_ms()};
}

void PutRequest(const ControlRequest& request, v1::Request& out) {
  out.set_kind(static_cast<v1::RequestKind>(request.kind));
  out.set_id(request.id);
  if (request.rank) {
    out.set_rank(*request.rank);
  }
  out.set_number(request.number);
  out.set_within_ms(request.within_ms);
  out.set_only_when_started(request.only_when_started);
}

static_assert(static_cast<int>(ControlRequest::Kind::kCheckpoint) == v1::REQUEST_KIND_CHECKPOINT &&
              static_cast<int>(ControlRequest::Kind::kCheckpointAndStop) ==
                  v1::REQUEST_KIND_CHECKPOINT_AND_STOP &&
              static_cast<int>(ControlRequest::Kind::kStop) == v1::REQUEST_KIND_STOP &&
              static_cast<int>(ControlRequest::Kind::kStacks) == v1::REQUEST_KIND_STACKS &&
              static_cast<int>(ControlRequest::Kind::kStragglers) == v1::REQUEST_KIND_STRAGGLERS);

Result<ControlRequest> TakeRequest(const v1::Request& wire) {
  LR_TRY(CheckRange("kind of request", wire.kind(), 0, v1::RequestKind_MAX));
  if (wire.kind() == v1::REQUEST_KIND_STACKS) {
    LR_TRY(CheckFolderName("id of stacks", wire.id()));
  }
  LR_TRY(CheckRange("rank", wire.rank(), 0, kMaxRanks - 1));
  LR_TRY(CheckRange("number of a request", wire.number(), 0, kLargestNumber));
  LR_TRY(CheckRange("time of a request", wire.within_ms(), 0, kLongestWait));
  ControlRequest request{static_cast<ControlRequest::Kind>(wire.kind()),
                         wire.id(),
                         wire.number(),
                         wire.within_ms(),
                         wire.only_when_started()};
  if (wire.has_rank()) {
    request.rank = wire.rank();
  }
  return request;
}

void PutStacks(const std::vector<RankStack>& stacks,
               google::protobuf::RepeatedPtrField<v1::RankStack>& out) {
  for (const RankStack& stack : stacks) {
    v1::RankStack& one = *out.Add();
    one.set_rank(stack.rank);
    one.set_text(stack.text.substr(0, kLongestStack));
  }
}

Result<std::vector<RankStack>> TakeStacks(
    const google::protobuf::RepeatedPtrField<v1::RankStack>& wire) {
  LR_TRY(CheckRange("number of stacks", wire.size(), 0, kMostStacks));
  std::vector<RankStack> stacks;
  for (const v1::RankStack& one : wire) {
    LR_TRY(CheckRange("rank", one.rank(), 0, kMaxRanks - 1));
    stacks.push_back({one.rank(), one.text().substr(0, kLongestStack)});
  }
  return stacks;
}

}  // namespace lr::launcher::wire
