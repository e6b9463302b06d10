#include "launcher/run_report.h"

#include <algorithm>
#include <unistd.h>

#include "launcher/plan/failure_label.h"

namespace lr::launcher {

namespace {

constexpr std::chrono::seconds kAnswerLimit{25};  // the host collects for 20 s
constexpr size_t kMostListed = 32;
constexpr size_t kMostRequests = 50;  // in the record
constexpr size_t kShortId = 8;

Json NodesToJson(const Assignment& assignment) {
  Json nodes = Json::array();
  for (const NodeAssignment& node : assignment.nodes) {
    nodes.push_back({{"node_rank", node.node_rank},
                     {"host", node.host_name},
                     {"address", node.address},
                     {"first_rank", node.first_rank},
                     {"workers", node.local_size}});
  }
  return nodes;
}

/// Spec 5.5, all fields.
Json ResultToJson(const CheckpointResult& result) {
  return {{"id", result.id},
          {"number", result.number},
          {"stop", result.stop},
          {"state", std::string(RequestStateName(result.state))},
          {"step", result.step},
          {"directory", result.directory},
          {"bytes", result.bytes},
          {"agree_s", result.agree_s},
          {"write_s", result.write_s},
          {"publish_s", result.publish_s},
          {"slowest_ranks", result.slowest},
          {"reason", result.reason}};
}

}  // namespace

RunReport::RunReport(boost::asio::io_context& loop, Requests requests)
    : loop_(loop), requests_(std::move(requests)) {}

void RunReport::Open(const LaunchPlan& plan,
                     const std::string& node_id,
                     const std::string& directory,
                     const std::string& control_socket) {
  node_id_ = node_id;
  directory_ = directory;
  const EventCopies& copies = plan.event_copies;
  if (!directory.empty() || copies.console || !copies.file.empty()) {
    Result<std::unique_ptr<RunRecord>> record =
        RunRecord::Create({.directory = directory,
                           .events_copy = copies.file,
                           .events_said = copies.console ? requests_.say : nullptr,
                           .warn = requests_.warn});
    if (record.ok()) {
      record_ = std::move(record).value();
    } else {
      requests_.warn(record.status().message());
    }
  }
  if (!control_socket.empty()) {
    Result<std::unique_ptr<RunControl>> control = RunControl::Start(
        loop_,
        control_socket,
        {.record = [this] { return record_ ? record_->Snapshot() : Json::object(); },
         .workers = requests_.workers,
         .checkpoint = [this](const CheckpointAsk& ask,
                              auto told) { RequestCheckpoint(ask, std::move(told)); },
         .cancel = requests_.cancel,
         .watch = [this](ControlRequest request,
                         WatchDone done) { AskHost(std::move(request), std::move(done)); }});
    if (control.ok()) {
      control_ = std::move(control).value();
    } else {
      requests_.warn(control.status().message());
    }
  }
  Set({{"node_id", node_id},
       {"launcher_pid", getpid()},
       {"program", plan.program.argv},
       {"kind", plan.program.kind},
       {"control_socket", control_ ? control_socket : ""},
       {"started_unix", std::time(nullptr)}});
}

void RunReport::Started(const Assignment& assignment, const std::string& log_directory) {
  Set({{"hang", nullptr}, {"stragglers", nullptr}});
  failures_.Begin(assignment.attempt);
  SetLogs(assignment, log_directory);
  Set({{"run_id", assignment.run_id},
       {"state", "running"},
       {"epoch", assignment.epoch},
       {"attempt", assignment.attempt},
       {"restarts", assignment.restart_count},
       {"world_size", assignment.world_size},
       {"master", fmt::format("{}:{}", assignment.master_addr, assignment.master_port)},
       {"nodes", NodesToJson(assignment)}});
  Event("started",
        {{"world_size", assignment.world_size},
         {"epoch", assignment.epoch},
         {"attempt", assignment.attempt}});
  if (record_) {
    record_->Flush();  // whoever sees a worker finds its run
  }
}

void RunReport::SetLogs(const Assignment& assignment, const std::string& log_directory) {
  for (const NodeAssignment& node : assignment.nodes) {
    if (node.node_id != node_id_) {
      continue;
    }
    if (!log_directory.empty()) {
      logs_.push_back({{"attempt", assignment.attempt},
                       {"directory", log_directory},
                       {"first_rank", node.first_rank},
                       {"workers", node.local_size}});
    }
    Set({{"node_rank", node.node_rank}, {"logs", logs_}});
  }
}

void RunReport::Reforming(const RunOutcome& ended) {
  failures_.Complete(ended.failures);
  Set({{"state", "forming"}, {"failures", failures_.ToJson()}});
  Event("epoch_ended", {{"reason", ended.reason}, {"next", ended.next}});
}

void RunReport::Progress(const WorkerProgress& now) {
  if (!now.output_dir.empty()) {
    Set({{"output_dir", now.output_dir}});
  }
  if (now.checkpoint_step > last_checkpoint_ && !now.checkpoint_dir.empty()) {
    last_checkpoint_ = now.checkpoint_step;
    const Json checkpoint = {{"step", now.checkpoint_step}, {"directory", now.checkpoint_dir}};
    Set({{"last_checkpoint", checkpoint}});
    Event("checkpoint", checkpoint);
  }
}

void RunReport::RequestCheckpoint(const CheckpointAsk& ask,
                                  std::function<void(const CheckpointResult&, bool last)> told) {
  ControlRequest request{.kind = ask.stop ? ControlRequest::Kind::kCheckpointAndStop
                                          : ControlRequest::Kind::kCheckpoint,
                         .id = ask.id,
                         .within_ms = ask.within_ms,
                         .only_when_started = ask.only_when_started};
  if (request.id.empty()) {
    request.id = fmt::format("lr-ctl-{}-{}", node_id_.substr(0, kShortId), ++asked_);
  }
  Event("checkpoint_requested", {{"id", request.id}, {"stop", ask.stop}});
  waiting_.push_back({request.id, ask.wait, std::move(told)});
  requests_.checkpoint(request);
}

void RunReport::Updated(const CheckpointResult& result) {
  const Json told = ResultToJson(result);
  std::erase_if(requests_told_, [&](const auto& other) { return other.first == result.id; });
  requests_told_.emplace_back(result.id, told);
  if (requests_told_.size() > kMostRequests) {
    requests_told_.erase(requests_told_.begin());
  }
  Json all = Json::array();
  for (const auto& [id, one] : requests_told_) {
    all.push_back(one);
  }
  Set({{"checkpoint_requests", all}});
  Event("checkpoint_request", told);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto here = it++;
    if (here->id != result.id) {
      continue;
    }
    const bool last = result.final() || !here->to_the_end;
    here->told(result, last);
    if (last) {
      waiting_.erase(here);
    }
  }
}

void RunReport::FailWaiting(const std::string& reason) {
  for (Waiting& waiting : waiting_) {
    waiting.told({.id = waiting.id, .state = RequestState::kFailed, .reason = reason}, true);
  }
  waiting_.clear();
  for (auto& [id, question] : std::exchange(questions_, {})) {
    question.done(Unavailable("the workers ended before the host answered"));
  }
}

// ---- progress of the run

void RunReport::AskHost(ControlRequest request, WatchDone done) {
  request.id = fmt::format("ask-{}-{}", node_id_.substr(0, 8), ++asked_);
  Question& question = questions_[request.id];
  question.done = std::move(done);
  question.limit = std::make_unique<boost::asio::steady_timer>(loop_, kAnswerLimit);
  question.limit->async_wait([this, id = request.id](const boost::system::error_code& error) {
    if (const auto late = error ? decltype(questions_)::node_type() : questions_.extract(id)) {
      late.mapped().done(
          DeadlineExceeded("the host of the run did not answer within {} s; is the run running?",
                           kAnswerLimit.count()));
    }
  });
  requests_.watch(request);
}

std::string RunReport::StackFolder(const std::string& id) const {
  return directory_.empty() ? "" : fmt::format("{}/stacks/{}", directory_, id);
}

void RunReport::Stacks(const std::string& id, const std::vector<RankStack>& stacks) {
  if (!record_ || stacks.empty()) {
    return;
  }
  for (const RankStack& stack : stacks) {
    record_->Attach(fmt::format("stacks/{}/rank_{}.txt", id, stack.rank), stack.text);
  }
  const bool known = std::ranges::any_of(stacks_, [&](const Json& one) { return one["id"] == id; });
  if (!known) {
    stacks_.push_back({{"id", id}, {"directory", StackFolder(id)}, {"unix", std::time(nullptr)}});
    while (stacks_.size() > kMostListed) {
      stacks_.erase(stacks_.begin());
    }
    Set({{"stacks", stacks_}});
  }
}

void RunReport::Watched(const WatchReport& report) {
  constexpr const char* kNames[] = {"hang", "hang_over", "stacks", "stragglers"};
  Stacks(report.id, report.stacks);
  Event(kNames[static_cast<size_t>(report.kind)],
        {{"id", report.id}, {"reason", report.text}, {"ranks", report.ranks}});
  const Json told = {{"text", report.text},
                     {"ranks", report.ranks},
                     {"id", report.id},
                     {"unix", std::time(nullptr)}};
  if (report.kind == WatchReport::Kind::kHang) {
    Set({{"hang", told}});
  } else if (report.kind == WatchReport::Kind::kHangOver) {
    Set({{"hang", nullptr}});
  } else if (report.kind == WatchReport::Kind::kStragglers) {
    Set({{"stragglers", told}});
  }
  if (const auto asked = questions_.extract(report.id)) {
    asked.mapped().done(report);
  }
}

void RunReport::Ended(const WorkerEnding& ending) {
  if (!ending.succeeded()) {
    failures_.Add(ending);
    Set({{"failures", failures_.ToJson()}});
  }
  Event("worker_ended",
        {{"rank", ending.rank}, {"pid", ending.pid}, {"how", DescribeEnding(ending)}});
}

void RunReport::Stopping(const std::string& why) {
  Set({{"state", "stopping"}});
  Event("stopping", {{"reason", why}});
}

void RunReport::Decided(const std::string& what, const std::string& reason) {
  Event(what, {{"reason", reason}});
}

void RunReport::Closed(const RunOutcome& outcome) {
  FailWaiting("the run ended before a checkpoint was complete");
  failures_.Complete(outcome.failures);
  Json fields = {{"state", outcome.succeeded ? "succeeded" : "failed"},
                 {"exit_code", outcome.exit_code},
                 {"reason", outcome.reason},
                 {"failures", failures_.ToJson()},
                 {"ended_unix", std::time(nullptr)},
                 {"control_socket", ""}};
  if (outcome.root_cause) {
    const FailureLabel label = LabelFailure(*outcome.root_cause);
    fields["root_cause"] = {{"rank", outcome.root_cause->rank},
                            {"host", outcome.root_cause->host_name},
                            {"how", DescribeEnding(*outcome.root_cause)},
                            {"cause", label.name},
                            {"evidence", label.evidence}};
  }
  Json workers = Json::array();
  for (const auto& [rank, state] : requests_.workers()) {
    workers.push_back({{"rank", rank},
                       {"step", state.step},
                       {"total_steps", state.total_steps},
                       {"loss", state.loss},
                       {"goodbye", state.goodbye}});
  }
  fields["workers"] = std::move(workers);
  Set(fields);
  Event("closed", {{"exit_code", outcome.exit_code}, {"reason", outcome.reason}});
  control_.reset();
  if (record_) {
    record_->Flush();
  }
}

void RunReport::Set(const Json& fields) {
  if (record_) {
    record_->Set(fields);
  }
}

void RunReport::Event(const std::string& name, const Json& fields) {
  if (record_) {
    record_->Event(name, fields);
  }
}

}  // namespace lr::launcher
