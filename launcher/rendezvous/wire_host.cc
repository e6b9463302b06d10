/// wire.h, from the host to the nodes.

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/rendezvous/join_check.h"
#include "launcher/rendezvous/wire.h"
#include "launcher/rendezvous/wire_parts.h"

namespace lr::launcher {
namespace {

using wire::CheckRange;

constexpr std::array kRefusalNames = std::to_array<std::pair<RefusalCode, std::string_view>>({
    {RefusalCode::kWrongRun, "WRONG_RUN"},
    {RefusalCode::kVersion, "VERSION"},
    {RefusalCode::kPlanMismatch, "PLAN_MISMATCH"},
    {RefusalCode::kDuplicateRank, "DUPLICATE_RANK"},
    {RefusalCode::kDuplicateNode, "DUPLICATE_NODE"},
    {RefusalCode::kRankOutOfRange, "RANK_OUT_OF_RANGE"},
    {RefusalCode::kRankMissing, "RANK_MISSING"},
    {RefusalCode::kFull, "FULL"},
    {RefusalCode::kClosed, "CLOSED"},
    {RefusalCode::kTooLarge, "TOO_LARGE"},
    {RefusalCode::kJoinTimeout, "JOIN_TIMEOUT"},
    {RefusalCode::kEndpoint, "ENDPOINT"},
    {RefusalCode::kUnreachable, "UNREACHABLE"},
    {RefusalCode::kHostLeft, "HOST_LEFT"},
    {RefusalCode::kProtocol, "PROTOCOL"},
    {RefusalCode::kExcluded, "EXCLUDED"},
    {RefusalCode::kWrongToken, "WRONG_TOKEN"},
});

void Put(const Refused& refused, v1::HostMessage& out) {
  v1::HostRefused& part = *out.mutable_refused();
  part.set_code(std::string(RefusalCodeName(refused.code)));
  part.set_exit_code(refused.exit_code);
  part.set_text(refused.text);
}

/// A code that this build does not know is a refusal all the same: its text says why.
Result<HostMessage> Take(const v1::HostRefused& in) {
  LR_TRY(CheckRange("exit code", in.exit_code(), 1, wire::kLargestExitCode));
  const auto known =
      std::ranges::find(kRefusalNames, in.code(), [](const auto& entry) { return entry.second; });
  const RefusalCode code = known == kRefusalNames.end() ? RefusalCode::kProtocol : known->first;
  return HostMessage(Refused{code, in.exit_code(), in.text()});
}

void Put(const Waiting& waiting, v1::HostMessage& out) {
  out.mutable_waiting()->set_text(waiting.text);
  out.mutable_waiting()->set_spare(waiting.spare);
}

void Put(const Reserve& reserve, v1::HostMessage& out) {
  out.mutable_reserve()->set_epoch(reserve.epoch);
  out.mutable_reserve()->set_seen_from(reserve.seen_from);
}

void Put(const Assign& assign, v1::HostMessage& out) {
  v1::HostAssign& part = *out.mutable_assign();
  const Assignment& assignment = assign.assignment;
  part.set_run_id(assignment.run_id);
  part.set_epoch(assignment.epoch);
  part.set_attempt(assignment.attempt);
  part.set_master_addr(assignment.master_addr);
  part.set_master_port(assignment.master_port);
  part.set_resume_from(assignment.resume_from);
  for (const std::string& line : assignment.resume_lines) {
    part.add_resume_lines(line.substr(0, kLongestMessage));
  }
  part.set_restart_count(assignment.restart_count);
  for (const NodeAssignment& node : assignment.nodes) {
    v1::AssignedNode& one = *part.add_nodes();
    one.set_node_id(node.node_id);
    one.set_host_name(node.host_name);
    one.set_address(node.address);
    one.set_local_size(node.local_size);
  }
}

Result<HostMessage> Take(const v1::HostAssign& in) {
  LR_TRY(CheckRange("number of nodes", in.nodes_size(), 1, kMaxNodes));
  LR_TRY(CheckRange("port", in.master_port(), 1, wire::kLargestPort));
  LR_TRY(CheckRange("attempt", in.attempt(), 0, INT32_MAX));
  LR_TRY(CheckRange("number of restarts", in.restart_count(), 0, INT32_MAX));
  Assign assign;
  Assignment& assignment = assign.assignment;
  assignment.run_id = in.run_id();
  assignment.epoch = in.epoch();
  assignment.attempt = in.attempt();
  assignment.master_addr = in.master_addr();
  assignment.master_port = in.master_port();
  assignment.resume_from = in.resume_from();
  assignment.resume_lines.assign(in.resume_lines().begin(), in.resume_lines().end());
  assignment.restart_count = in.restart_count();
  for (const v1::AssignedNode& one : in.nodes()) {
    LR_TRY(CheckRange("number of workers", one.local_size(), 1, kMaxRanks - assignment.world_size));
    assignment.nodes.push_back({.node_id = one.node_id(),
                                .host_name = one.host_name(),
                                .address = one.address(),
                                .node_rank = static_cast<int>(assignment.nodes.size()),
                                .local_size = one.local_size(),
                                .first_rank = assignment.world_size});
    assignment.world_size += one.local_size();
  }
  return HostMessage(std::move(assign));
}

void Put(const Survey& survey, v1::HostMessage& out) {
  out.mutable_survey()->set_epoch(survey.epoch);
  out.mutable_survey()->set_output_dir(survey.output_dir);
}

void Put(const Go& go, v1::HostMessage& out) {
  out.mutable_go()->set_epoch(go.epoch);
}

void Put(const Stop& stop, v1::HostMessage& out) {
  out.mutable_stop()->set_epoch(stop.epoch);
  wire::PutOrder(stop.order, *out.mutable_stop()->mutable_order());
}

Result<HostMessage> Take(const v1::HostStop& in) {
  LR_ASSIGN(StopOrder order, wire::TakeOrder(in.order()));
  return HostMessage(Stop{in.epoch(), std::move(order)});
}

void Put(const Control& control, v1::HostMessage& out) {
  wire::PutRequest(control.request, *out.mutable_request());
}

void Put(const RequestUpdate& update, v1::HostMessage& out) {
  v1::HostRequestUpdate& part = *out.mutable_update();
  const CheckpointResult& result = update.result;
  part.set_id(result.id);
  part.set_number(result.number);
  part.set_stop(result.stop);
  part.set_state(static_cast<v1::RequestState>(result.state));
  part.set_step(result.step);
  part.set_directory(result.directory);
  part.set_bytes(result.bytes);
  part.set_agree_s(result.agree_s);
  part.set_write_s(result.write_s);
  part.set_publish_s(result.publish_s);
  part.mutable_slowest()->Assign(result.slowest.begin(), result.slowest.end());
  part.set_reason(result.reason);
}

static_assert(static_cast<int>(RequestState::kSkipped) == v1::REQUEST_STATE_SKIPPED);

Result<HostMessage> Take(const v1::HostRequestUpdate& in) {
  LR_TRY(CheckRange("state of a request", in.state(), 0, v1::RequestState_MAX));
  return HostMessage(RequestUpdate{{.id = in.id(),
                                    .number = in.number(),
                                    .stop = in.stop(),
                                    .state = static_cast<RequestState>(in.state()),
                                    .step = in.step(),
                                    .directory = in.directory(),
                                    .bytes = in.bytes(),
                                    .agree_s = in.agree_s(),
                                    .write_s = in.write_s(),
                                    .publish_s = in.publish_s(),
                                    .slowest = {in.slowest().begin(), in.slowest().end()},
                                    .reason = in.reason()}});
}

void Put(const BeatEcho& echo, v1::HostMessage& out) {
  out.mutable_echo()->set_sent_unix_ns(echo.sent_unix_ns);
  out.mutable_echo()->set_host_unix_ns(echo.host_unix_ns);
}

void PutOutcome(const RunOutcome& outcome, v1::HostClosed& part) {
  part.set_succeeded(outcome.succeeded);
  part.set_exit_code(outcome.exit_code);
  part.set_reason(outcome.reason);
  part.set_next(outcome.next);
  if (outcome.root_cause) {
    wire::PutEnding(*outcome.root_cause, *part.mutable_root_cause());
  }
  for (const WorkerEnding& failure : outcome.failures) {
    if (part.failures_size() == kMostFailures) {
      break;
    }
    wire::PutEnding(failure, *part.add_failures());
  }
}

Result<RunOutcome> TakeOutcome(const v1::HostClosed& in) {
  LR_TRY(CheckRange("exit code", in.exit_code(), 0, wire::kLargestExitCode));
  LR_TRY(CheckRange("number of failures", in.failures_size(), 0, kMostFailures));
  RunOutcome outcome;
  outcome.succeeded = in.succeeded();
  outcome.exit_code = in.exit_code();
  outcome.reason = in.reason();
  outcome.next = in.next();
  if (in.has_root_cause()) {
    LR_ASSIGN(outcome.root_cause, wire::TakeEnding(in.root_cause()));
  }
  for (const v1::Ending& failure : in.failures()) {
    LR_ASSIGN(WorkerEnding ending, wire::TakeEnding(failure));
    outcome.failures.push_back(std::move(ending));
  }
  return outcome;
}

void Put(const Reforming& reforming, v1::HostMessage& out) {
  out.mutable_reforming()->set_epoch(reforming.epoch);
  PutOutcome(reforming.ended, *out.mutable_reforming()->mutable_ended());
}

static_assert(static_cast<int>(WatchReport::Kind::kHang) == v1::WATCH_KIND_HANG &&
              static_cast<int>(WatchReport::Kind::kHangOver) == v1::WATCH_KIND_HANG_OVER &&
              static_cast<int>(WatchReport::Kind::kStacks) == v1::WATCH_KIND_STACKS &&
              static_cast<int>(WatchReport::Kind::kStragglers) == v1::WATCH_KIND_STRAGGLERS);

void Put(const Watched& watched, v1::HostMessage& out) {
  v1::HostWatched& part = *out.mutable_watched();
  const WatchReport& report = watched.report;
  part.set_epoch(watched.epoch);
  part.set_kind(static_cast<v1::WatchKind>(report.kind));
  part.set_id(report.id);
  part.set_text(report.text.substr(0, kLongestMessage));
  for (const int rank : report.ranks) {
    part.add_ranks(rank);
  }
  wire::PutStacks(report.stacks, *part.mutable_stacks());
}

Result<HostMessage> Take(const v1::HostWatched& in) {
  LR_TRY(CheckRange("kind of report", in.kind(), 0, v1::WatchKind_MAX));
  LR_TRY(CheckRange("number of ranks", in.ranks_size(), 0, kMaxRanks));
  WatchReport report{.kind = static_cast<WatchReport::Kind>(in.kind()),
                     .id = in.id(),
                     .text = in.text().substr(0, kLongestMessage),
                     .ranks = {in.ranks().begin(), in.ranks().end()}};
  LR_ASSIGN(report.stacks, wire::TakeStacks(in.stacks()));
  if (!report.stacks.empty()) {
    LR_TRY(wire::CheckFolderName("id of stacks", report.id));
  }
  return HostMessage(Watched{in.epoch(), std::move(report)});
}

void Put(const Closed& closed, v1::HostMessage& out) {
  PutOutcome(closed.outcome, *out.mutable_closed());
}

}  // namespace

std::string_view RefusalCodeName(RefusalCode code) {
  const auto known =
      std::ranges::find(kRefusalNames, code, [](const auto& entry) { return entry.first; });
  return known == kRefusalNames.end() ? "PROTOCOL" : known->second;
}

v1::HostMessage ToWire(const HostMessage& message) {
  v1::HostMessage out;
  std::visit([&](const auto& body) { Put(body, out); }, message);
  return out;
}

Result<HostMessage> FromWire(const v1::HostMessage& in) {
  switch (in.kind_case()) {
    case v1::HostMessage::kRefused:
      return Take(in.refused());
    case v1::HostMessage::kWaiting:
      return HostMessage(Waiting{in.waiting().text(), in.waiting().spare()});
    case v1::HostMessage::kReserve:
      return HostMessage(Reserve{in.reserve().epoch(), in.reserve().seen_from()});
    case v1::HostMessage::kAssign:
      return Take(in.assign());
    case v1::HostMessage::kSurvey:
      return HostMessage(Survey{in.survey().epoch(), in.survey().output_dir()});
    case v1::HostMessage::kGo:
      return HostMessage(Go{in.go().epoch()});
    case v1::HostMessage::kStop:
      return Take(in.stop());
    case v1::HostMessage::kRequest: {
      LR_ASSIGN(ControlRequest request, wire::TakeRequest(in.request()));
      return HostMessage(Control{std::move(request)});
    }
    case v1::HostMessage::kUpdate:
      return Take(in.update());
    case v1::HostMessage::kEcho:
      return HostMessage(BeatEcho{in.echo().sent_unix_ns(), in.echo().host_unix_ns()});
    case v1::HostMessage::kReforming: {
      LR_ASSIGN(RunOutcome ended, TakeOutcome(in.reforming().ended()));
      return HostMessage(Reforming{in.reforming().epoch(), std::move(ended)});
    }
    case v1::HostMessage::kWatched:
      return Take(in.watched());
    case v1::HostMessage::kClosed: {
      LR_ASSIGN(RunOutcome outcome, TakeOutcome(in.closed()));
      return HostMessage(Closed{std::move(outcome)});
    }
    case v1::HostMessage::kChallenge:
    case v1::HostMessage::kResumed:  // of the stream itself: RemoteLink
    case v1::HostMessage::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("a message of a kind that protocol version {} does not know",
                         kProtocolVersion);
}

}  // namespace lr::launcher
