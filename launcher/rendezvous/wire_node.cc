/// wire.h, from the nodes to the host.

#include <utility>

#include "launcher/rendezvous/join_check.h"
#include "launcher/rendezvous/wire.h"
#include "launcher/rendezvous/wire_parts.h"

namespace lr::launcher {
namespace {

using wire::CheckRange;

constexpr int kMostPlanFields = 64;
constexpr int kMostAddresses = 16;

/// A duration that somebody measured; anything else counts as not measured.
double Positive(double seconds) {
  return seconds > 0.0 && seconds < 1e9 ? seconds : 0.0;
}

void Put(const Hello& hello, v1::NodeMessage& out) {
  v1::NodeHello& part = *out.mutable_hello();
  const NodeIdentity& node = hello.identity;
  part.set_protocol(hello.protocol);
  part.set_live_port(hello.live_port);
  part.set_node_id(node.node_id);
  part.set_run_id(node.run_id);
  part.set_host_name(node.host_name);
  part.set_pid(node.pid);
  part.set_local_size(node.local_size);
  part.set_min_nodes(node.min_nodes);
  part.set_max_nodes(node.max_nodes);
  if (node.node_rank) {
    part.set_node_rank(*node.node_rank);
  }
  if (node.scheduler_index) {
    part.set_scheduler_index(*node.scheduler_index);
  }
  part.set_local_addr(node.local_addr);
  part.set_program_name(node.program_name);
  for (const auto& [name, value] : node.plan_digest) {
    v1::PlanField& field = *part.add_plan();
    field.set_name(name);
    field.set_value(value);
  }
}

Result<NodeMessage> Take(const v1::NodeHello& in) {
  LR_TRY(CheckRange(
      "size of the introduction", static_cast<int64_t>(in.ByteSizeLong()), 0, kLargestHello));
  LR_TRY(CheckRange("number of plan fields", in.plan_size(), 0, kMostPlanFields));
  LR_TRY(CheckRange("live port", in.live_port(), 0, wire::kLargestPort));
  LR_TRY(CheckRange("number of workers", in.local_size(), 0, kMaxRanks));
  LR_TRY(CheckRange("smallest number of nodes", in.min_nodes(), 1, kMaxNodes));
  LR_TRY(CheckRange("number of nodes", in.max_nodes(), in.min_nodes(), kMaxNodes));
  Hello hello;
  hello.protocol = in.protocol();
  hello.live_port = in.live_port();
  NodeIdentity& node = hello.identity;
  node.node_id = in.node_id();
  node.run_id = in.run_id();
  node.host_name = in.host_name();
  node.pid = in.pid();
  node.local_size = in.local_size();
  node.min_nodes = in.min_nodes();
  node.max_nodes = in.max_nodes();
  if (in.has_node_rank()) {
    node.node_rank = in.node_rank();
  }
  if (in.has_scheduler_index()) {
    node.scheduler_index = in.scheduler_index();
  }
  node.local_addr = in.local_addr();
  node.program_name = in.program_name();
  for (const v1::PlanField& field : in.plan()) {
    node.plan_digest.emplace_back(field.name(), field.value());
  }
  return NodeMessage(std::move(hello));
}

void Put(const Reserved& reserved, v1::NodeMessage& out) {
  v1::NodeReserved& part = *out.mutable_reserved();
  part.set_epoch(reserved.epoch);
  part.set_address(reserved.address);
  part.set_port(reserved.port);
  part.set_problem(reserved.problem);
  for (const std::string& address : reserved.alternatives) {
    part.add_alternatives(address);
  }
}

Result<NodeMessage> Take(const v1::NodeReserved& in) {
  LR_TRY(CheckRange("port", in.port(), 0, wire::kLargestPort));
  LR_TRY(CheckRange("number of addresses", in.alternatives_size(), 0, kMostAddresses));
  return NodeMessage(Reserved{in.epoch(),
                              in.address(),
                              in.port(),
                              in.problem(),
                              {in.alternatives().begin(), in.alternatives().end()}});
}

void Put(const Ack& ack, v1::NodeMessage& out) {
  out.mutable_ack()->set_epoch(ack.epoch);
  out.mutable_ack()->set_problem(ack.problem);
  out.mutable_ack()->set_address(ack.address);
}

void Put(const Beat& beat, v1::NodeMessage& out) {
  out.mutable_beat()->set_sent_unix_ns(beat.sent_unix_ns);
}

void Put(const Progress& progress, v1::NodeMessage& out) {
  v1::NodeProgress& part = *out.mutable_progress();
  part.set_epoch(progress.epoch);
  part.set_step(progress.now.step);
  part.set_checkpoint_step(progress.now.checkpoint_step);
  part.set_output_dir(progress.now.output_dir);
  part.set_step_s(progress.now.estimates.step_s);
  part.set_save_s(progress.now.estimates.save_s);
}

Result<NodeMessage> Take(const v1::NodeProgress& in) {
  LR_TRY(CheckRange("step", in.step(), 0, INT64_MAX));
  LR_TRY(CheckRange("step of the checkpoint", in.checkpoint_step(), 0, INT64_MAX));
  return NodeMessage(Progress{in.epoch(),
                              {in.step(),
                               in.checkpoint_step(),
                               in.output_dir(),
                               {Positive(in.step_s()), Positive(in.save_s())}}});
}

void Put(const Saved& saved, v1::NodeMessage& out) {
  v1::NodeSaved& part = *out.mutable_saved();
  part.set_epoch(saved.epoch);
  part.set_rank(saved.news.rank);
  part.set_running(saved.news.running);
  part.set_step(saved.news.step);
  part.set_request(saved.news.request);
  part.set_directory(saved.news.directory);
  part.set_error(saved.news.error.substr(0, kLongestMessage));
  part.set_bytes(saved.news.bytes);
  part.set_write_s(saved.news.write_s);
  part.set_publish_s(saved.news.publish_s);
}

Result<NodeMessage> Take(const v1::NodeSaved& in) {
  LR_TRY(CheckRange("rank", in.rank(), 0, kMaxRanks - 1));
  LR_TRY(CheckRange("step", in.step(), 0, INT64_MAX));
  LR_TRY(CheckRange("number of a request", in.request(), 0, INT64_MAX));
  LR_TRY(CheckRange("number of bytes", in.bytes(), 0, INT64_MAX));
  return NodeMessage(Saved{in.epoch(),
                           {.rank = in.rank(),
                            .running = in.running(),
                            .step = in.step(),
                            .request = in.request(),
                            .directory = in.directory(),
                            .error = in.error(),
                            .bytes = in.bytes(),
                            .write_s = Positive(in.write_s()),
                            .publish_s = Positive(in.publish_s())}});
}

/// Newest first, as listed; what an operator needs of a reason fits into a line.
void Put(const Surveyed& surveyed, v1::NodeMessage& out) {
  v1::NodeSurveyed& part = *out.mutable_surveyed();
  part.set_epoch(surveyed.epoch);
  part.set_problem(surveyed.view.problem.substr(0, kLongestLine));
  for (const CheckpointCandidate& candidate : surveyed.view.candidates) {
    if (part.checkpoints_size() >= kMostCheckpoints && !candidate.is_last) {
      continue;
    }
    v1::SeenCheckpoint& one = *part.add_checkpoints();
    one.set_name(candidate.name);
    one.set_is_last(candidate.is_last);
    one.set_complete(candidate.verdict.complete);
    one.set_run_id(candidate.run_id);
    one.set_reason(candidate.verdict.reason.substr(0, kLongestLine));
  }
}

Result<NodeMessage> Take(const v1::NodeSurveyed& in) {
  LR_TRY(CheckRange("number of checkpoints", in.checkpoints_size(), 0, kMostCheckpoints + 1));
  Surveyed surveyed{in.epoch(), {in.problem(), {}}};
  for (const v1::SeenCheckpoint& one : in.checkpoints()) {
    const std::optional<int64_t> step = ParseStepDirectoryName(one.name());
    if (!step) {
      return InvalidArgument("'{}' is not the name of a step directory", one.name());
    }
    surveyed.view.candidates.push_back({.name = one.name(),
                                        .step = *step,
                                        .is_last = one.is_last(),
                                        .pinned = false,
                                        .run_id = one.run_id(),
                                        .verdict = {one.complete(), one.reason()}});
  }
  return NodeMessage(std::move(surveyed));
}

void PutBoard(const WorkerBoard& board, v1::WorkerBoard& out) {
  out.set_rank(board.rank);
  out.set_phase(static_cast<int>(board.phase));
  out.set_in_phase_ms(board.in_phase.count());
  out.set_step(board.step);
  out.set_ticks(board.ticks);
  out.set_steps_done(board.steps_done);
  out.set_steps_timed(board.steps_timed);
  out.set_step_median_us(board.step_median.count());
  out.set_step_longest_us(board.step_longest.count());
  out.set_last_save_ms(board.last_save.count());
  for (const auto total : board.phase_total) {
    out.add_phase_total_us(total.count());
  }
  for (const CollectivePosition& position : board.collectives) {
    if (out.collectives_size() == kMostGroups) {
      break;
    }
    v1::CollectivePosition& one = *out.add_collectives();
    one.set_group(position.group.substr(0, kLongestLine));
    one.set_entered(position.entered);
    one.set_operation(position.operation.substr(0, kLongestLine));
    one.set_bytes(position.bytes);
  }
  out.set_left(board.left);
}

/// A span that arithmetic on it cannot overflow.
Status CheckSpan(std::string_view field, int64_t value) {
  return CheckRange(field, value, 0, INT64_MAX / 1'000'000'000);
}

Result<WorkerBoard> TakeBoard(const v1::WorkerBoard& in) {
  LR_TRY(CheckRange("rank", in.rank(), 0, kMaxRanks - 1));
  LR_TRY(CheckRange("phase", in.phase(), 0, kWorkerPhases - 1));
  LR_TRY(CheckSpan("time in the phase", in.in_phase_ms()));
  LR_TRY(CheckRange("steps done", in.steps_done(), 0, INT64_MAX));
  LR_TRY(CheckSpan("median step", in.step_median_us()));
  LR_TRY(CheckSpan("longest step", in.step_longest_us()));
  LR_TRY(CheckSpan("last save", in.last_save_ms()));
  LR_TRY(CheckRange("number of phases", in.phase_total_us_size(), 0, kWorkerPhases));
  LR_TRY(CheckRange("number of groups", in.collectives_size(), 0, kMostGroups));
  WorkerBoard board{.rank = in.rank(),
                    .phase = static_cast<WorkerPhase>(in.phase()),
                    .in_phase = std::chrono::milliseconds(in.in_phase_ms()),
                    .step = in.step(),
                    .ticks = in.ticks(),
                    .steps_done = in.steps_done(),
                    .steps_timed = in.steps_timed(),
                    .step_median = std::chrono::microseconds(in.step_median_us()),
                    .step_longest = std::chrono::microseconds(in.step_longest_us()),
                    .last_save = std::chrono::milliseconds(in.last_save_ms()),
                    .left = in.left()};
  for (const int64_t total : in.phase_total_us()) {
    LR_TRY(CheckSpan("time in a phase", total));
    board.phase_total.emplace_back(total);
  }
  for (const v1::CollectivePosition& one : in.collectives()) {
    board.collectives.push_back({one.group(), one.entered(), one.operation(), one.bytes()});
  }
  return board;
}

void Put(const Boards& boards, v1::NodeMessage& out) {
  out.mutable_boards()->set_epoch(boards.epoch);
  for (const WorkerBoard& board : boards.boards) {
    PutBoard(board, *out.mutable_boards()->add_boards());
  }
}

Result<NodeMessage> Take(const v1::NodeBoards& in) {
  LR_TRY(CheckRange("number of boards", in.boards_size(), 0, kMostBoards));
  Boards boards{.epoch = in.epoch(), .boards = {}};
  for (const v1::WorkerBoard& one : in.boards()) {
    LR_ASSIGN(WorkerBoard board, TakeBoard(one));
    boards.boards.push_back(std::move(board));
  }
  return NodeMessage(std::move(boards));
}

void Put(const Stacks& stacks, v1::NodeMessage& out) {
  v1::NodeStacks& part = *out.mutable_stacks();
  part.set_epoch(stacks.epoch);
  part.set_id(stacks.id);
  wire::PutStacks(stacks.ranks, *part.mutable_ranks());
  part.set_last(stacks.last);
}

void Put(const Ended& ended, v1::NodeMessage& out) {
  out.mutable_ended()->set_epoch(ended.epoch);
  wire::PutEnding(ended.ending, *out.mutable_ended()->mutable_ending());
}

Result<NodeMessage> Take(const v1::NodeEnded& in) {
  LR_ASSIGN(WorkerEnding ending, wire::TakeEnding(in.ending()));
  return NodeMessage(Ended{in.epoch(), std::move(ending)});
}

void Put(const Stopped& stopped, v1::NodeMessage& out) {
  out.mutable_stopped()->set_epoch(stopped.epoch);
}

void Put(const StopRequest& request, v1::NodeMessage& out) {
  wire::PutOrder(request.order, *out.mutable_stop());
}

void Put(const ControlAsk& ask, v1::NodeMessage& out) {
  wire::PutRequest(ask.request, *out.mutable_request());
}

void Put(const Bye& bye, v1::NodeMessage& out) {
  out.mutable_bye()->set_reason(bye.reason);
}

}  // namespace

v1::NodeMessage ToWire(const NodeMessage& message) {
  v1::NodeMessage out;
  std::visit([&](const auto& body) { Put(body, out); }, message);
  return out;
}

Result<NodeMessage> FromWire(const v1::NodeMessage& in) {
  switch (in.kind_case()) {
    case v1::NodeMessage::kHello:
      return Take(in.hello());
    case v1::NodeMessage::kReserved:
      return Take(in.reserved());
    case v1::NodeMessage::kAck:
      return NodeMessage(Ack{in.ack().epoch(), in.ack().problem(), in.ack().address()});
    case v1::NodeMessage::kBeat:
      return NodeMessage(Beat{in.beat().sent_unix_ns()});
    case v1::NodeMessage::kProgress:
      return Take(in.progress());
    case v1::NodeMessage::kBoards:
      return Take(in.boards());
    case v1::NodeMessage::kStacks: {
      LR_ASSIGN(std::vector<RankStack> ranks, wire::TakeStacks(in.stacks().ranks()));
      return NodeMessage(
          Stacks{in.stacks().epoch(), in.stacks().id(), std::move(ranks), in.stacks().last()});
    }
    case v1::NodeMessage::kSaved:
      return Take(in.saved());
    case v1::NodeMessage::kSurveyed:
      return Take(in.surveyed());
    case v1::NodeMessage::kEnded:
      return Take(in.ended());
    case v1::NodeMessage::kStopped:
      return NodeMessage(Stopped{in.stopped().epoch()});
    case v1::NodeMessage::kStop: {
      LR_ASSIGN(StopOrder order, wire::TakeOrder(in.stop()));
      return NodeMessage(StopRequest{std::move(order)});
    }
    case v1::NodeMessage::kRequest: {
      LR_ASSIGN(ControlRequest request, wire::TakeRequest(in.request()));
      return NodeMessage(ControlAsk{std::move(request)});
    }
    case v1::NodeMessage::kBye:
      return NodeMessage(Bye{in.bye().reason()});
    case v1::NodeMessage::kProof:
    case v1::NodeMessage::kResume:  // of the stream itself: NodeStream
    case v1::NodeMessage::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("a message of a kind that protocol version {} does not know",
                         kProtocolVersion);
}

}  // namespace lr::launcher
