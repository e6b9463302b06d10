#include "launcher/app.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/error_file.h"
#include "common/contract/exit_codes.h"
#include "common/contract/worker_environment.h"
#include "launcher/plan/exit_plan.h"
#include "launcher/plan/failure_label.h"
#include "launcher/plan/first_failure.h"
#include "launcher/plan/plan_digest.h"
#include "launcher/run_directory.h"
#include "launcher/worker_specs.h"

namespace lr::launcher {
namespace {

constexpr size_t kSocketNameDigits = 16;

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

/// The first cause, for whoever started this launcher.
ErrorReport ReportOf(const WorkerEnding& ending) {
  return {.message = fmt::format("rank {} on {} ended with {}{}{}",
                                 ending.rank,
                                 ending.host_name,
                                 DescribeEnding(ending),
                                 ending.message.empty() ? "" : ": ",
                                 ending.message),
          .details = ending.message,
          .exit_code = ending.job_exit_code(),
          .unix_s = ending.end_unix_ns / kNanosecondsPerSecond};
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return kExitUsage;
    case StatusCode::kDeadlineExceeded:
      return kExitRendezvousTimeout;
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
      return kExitPermission;
    case StatusCode::kInternal:
      return kExitInternal;
    default:
      return kExitRendezvousRefused;
  }
}

/// As the workers will report it themselves.
std::string OutputDirectory(const ProgramPlan& program) {
  return program.output_dir.empty()
             ? ""
             : std::filesystem::absolute(program.output_dir).lexically_normal().string();
}

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

App::App(boost::asio::io_context& loop,
         Console& console,
         Sweeper& sweeper,
         Doors doors,
         LaunchPlan plan,
         LauncherFacts facts)
    : loop_(loop),
      console_(console),
      sweeper_(sweeper),
      doors_(std::move(doors)),
      plan_(std::move(plan)),
      facts_(std::move(facts)),
      node_{.node_id = facts_.node_id, .control_socket = "", .attempt_dir = ""},
      logs_({.max_bytes = plan_.logs.max_file_bytes, .kept = plan_.logs.kept_files},
            [this](const std::string& text) { Say("warning: " + text); }),
      limit_timer_(loop),
      leave_timer_(loop),
      started_unix_ns_(UnixNanoseconds()) {}

int App::Run() {
  std::vector<int> signals = plan_.signals;
  std::vector<int> others = JobSignals();
  for (const auto& [signal, rule] : plan_.signal_rules) {
    others.push_back(signal);
  }
  for (const int signal : others) {
    if (std::ranges::find(signals, signal) == signals.end()) {
      signals.push_back(signal);
    }
  }
  signals_ =
      std::make_unique<SignalWatch>(loop_, signals, [this](int signal) { OnSignal(signal); });
  ServeWorkers();
  if (const Status joined = Join(); !joined.ok()) {
    Say(joined.message());
    outcome_.emplace();
    outcome_->exit_code = ExitCodeOf(joined);
    outcome_->reason = joined.message();
    return End(outcome_->exit_code);
  }
  loop_.run();
  signals_->Stop();
  return End(exit_code_);
}

// ---- joining

Status App::Join() {
  NodeIdentity identity;
  identity.node_id = facts_.node_id;
  identity.run_id = plan_.run_id;
  identity.host_name = facts_.host_name;
  identity.pid = getpid();
  identity.local_size = plan_.local_size;
  identity.min_nodes = plan_.min_nodes;
  identity.max_nodes = plan_.max_nodes;
  identity.node_rank = plan_.node_rank;
  identity.scheduler_index = plan_.scheduler_index;
  identity.local_addr = plan_.local_addrs.empty() ? "" : plan_.local_addrs.front();
  identity.program_name = BaseName(plan_.program.given);
  identity.plan_digest = PlanDigest(plan_, facts_.foreign_digest, facts_.build);
  const RendezvousEndpoint endpoint{.standalone = plan_.endpoint.standalone,
                                    .host = plan_.endpoint.host,
                                    .worker_port = plan_.endpoint.worker_port,
                                    .control_port = plan_.endpoint.control_port,
                                    .control_port_explicit = plan_.endpoint.control_port_explicit,
                                    .worker_port_explicit = plan_.endpoint.worker_port_explicit,
                                    .join_timeout = plan_.endpoint.join_timeout,
                                    .times = plan_.endpoint.times,
                                    .is_host = plan_.endpoint.is_host,
                                    .local_addrs = plan_.local_addrs,
                                    .trust = plan_.endpoint.trust,
                                    .policy = plan_.policy,
                                    .native = plan_.program.native,
                                    .output_dir = OutputDirectory(plan_.program)};
  LR_ASSIGN(membership_, doors_.join(loop_, std::move(identity), endpoint, MembershipEvents()));
  return {};
}

/// Handlers run from the loop, never inside a call to the membership: they may call it, too.
template <typename... Args>
std::function<void(Args...)> App::Posted(void (App::*handler)(Args...)) {
  return [this, handler](Args... args) {
    boost::asio::post(loop_, [this, handler, copies = std::tuple<std::decay_t<Args>...>(args...)] {
      std::apply([&](const auto&... copy) { (this->*handler)(copy...); }, copies);
    });
  };
}

Membership::Events App::MembershipEvents() {
  return {.waiting = Posted(&App::OnWaiting),
          .assigned = Posted(&App::OnAssigned),
          .go = Posted(&App::OnGo),
          .stop = Posted(&App::OnStop),
          .reforming = Posted(&App::OnReforming),
          .request = Posted(&App::OnRequest),
          .update = Posted(&App::OnUpdate),
          .closed = Posted(&App::OnClosed),
          .refused = Posted(&App::OnRefused),
          .watched = Posted(&App::OnWatched),
          .survey = doors_.survey};
}

void App::OnWaiting(const std::string& line) {
  Say(line);
}

void App::OnAssigned(const Assignment& assignment) {
  if (phase_ == RunPhase::kJoining) {
    assignment_ = assignment;
  }
}

void App::OnGo(int64_t epoch) {
  if (phase_ != RunPhase::kJoining || !assignment_ || assignment_->epoch != epoch) {
    return;  // a signal ended the join meanwhile, or an epoch that was formed anew
  }
  phase_ = RunPhase::kWorking;
  PrepareDirectories();
  if (!report_) {
    OpenReport();
  }
  report_->Started(*assignment_, WantsLogFiles(plan_.logs) ? node_.attempt_dir : "");
  for (const std::string& line : assignment_->resume_lines) {
    Say(line);
    Decide("resume", line);
  }
  group_ = std::make_unique<WorkerGroup>(
      loop_,
      OutputSinks{.console = console_, .logs = logs_},
      sweeper_,
      WorkerGroup::Options{.marker = "LR_NODE_ID=" + facts_.node_id},
      WorkerGroup::Events{
          .ended = [this](const WorkerEnding& ending) { OnWorkerEnded(ending); },
          .gone = [this](const std::vector<ProcessInfo>& left) { OnWorkersGone(left); }});
  group_->Start(MakeWorkerSpecs(plan_, *assignment_, node_, facts_.environment));
  WatchForNotices();
}

void App::PrepareDirectories() {
  const EnvironmentReader environment = ProcessEnvironment();
  Result<std::string> folder =
      run_directory_.empty()
          ? CreateRunDirectory(plan_.log_dir, assignment_->run_id, facts_.node_id, environment)
          : run_directory_;
  if (folder.ok()) {
    run_directory_ = *folder;
  } else {
    Say(fmt::format("warning: this run leaves no record: {}", folder.status().message()));
  }
  if (plan_.log_dir.empty() && WantsLogFiles(plan_.logs)) {
    folder = CreateTemporaryLogDirectory(assignment_->run_id, facts_.node_id, environment);
    if (folder.ok()) {
      Say(fmt::format("log directory: {}", *folder));
    }
  }
  if (folder.ok()) {
    folder = CreateAttemptDirectory(*folder, assignment_->attempt, plan_.local_size);
  }
  if (!folder.ok()) {
    Say(fmt::format("warning: this run leaves neither log nor error files: {}",
                    folder.status().message()));
    return;
  }
  node_.attempt_dir = *folder;
}

void App::OpenReport() {
  report_ = std::make_unique<RunReport>(
      loop_,
      RunReport::Requests{
          .checkpoint = [this](const ControlRequest& request) { Ask(request); },
          .cancel =
              [this](const std::string& reason) {
                StopRun({.reason = StopReason::kCancelled,
                         .text = "cancelled: " + reason,
                         .signal = SIGTERM});
              },
          .watch = [this](const ControlRequest& request) { membership_->RequestControl(request); },
          .workers =
              [this] { return service_ ? service_->progress() : std::map<int, WorkerProgress>(); },
          .warn =
              [this](const std::string& text) {
                boost::asio::post(loop_, [this, text] { Say("warning: " + text); });
              },
          .say = [this](const std::string& lines) { console_.Say(lines); }});
  report_->Open(plan_, facts_.node_id, run_directory_, run_socket_);
}

void App::ServeWorkers() {
  if (!plan_.program.native && plan_.foreign_checkpoints.signal == 0) {
    return;
  }
  const Result<std::string> folder = CreateSocketDirectory(ProcessEnvironment());
  Status status = folder.status();
  if (folder.ok()) {
    const std::string path =
        fmt::format("{}/w-{}.sock", *folder, facts_.node_id.substr(0, kSocketNameDigits));
    run_socket_ = path + ".ctl";
    if (!plan_.program.native) {
      return;
    }
    auto service =
        doors_.serve_workers(loop_,
                             path,
                             {.progress = [this](const WorkerProgress& now) { OnProgress(now); },
                              .saved = [this](const SaveNews& news) { OnSaved(news); },
                              .stacks =
                                  [this](int rank, const std::string& id, const std::string& text) {
                                    if (const auto collection = collections_.find(id);
                                        collection != collections_.end()) {
                                      collection->second->Add(rank, text);
                                    }
                                  }});
    status = service.status();
    if (service.ok()) {
      service_ = std::move(service).value();
      node_.control_socket = path;
      return;
    }
  }
  run_socket_.clear();
  Say(fmt::format("warning: workers report no progress and obey signals only: {}",
                  status.message()));
}

// ---- the end

void App::OnClosed(const RunOutcome& outcome) {
  outcome_ = outcome;
  if (left_) {
    Finish(exit_code_);
  } else if (phase_ == RunPhase::kWorking) {
    StopWorkers(StopReason::kHostLost, SIGTERM);
  } else if (phase_ != RunPhase::kStopping) {
    ExplainOutcome();
  }
}

void App::OnRefused(int exit_code, const std::string& text) {
  RunOutcome outcome;
  outcome.exit_code = exit_code;
  outcome.reason = text;
  OnClosed(outcome);
}

void App::ExplainOutcome() {
  const ExitPlan exit =
      DecideExit(*outcome_, Context(), {.fold = plan_.fold_exit_code, .quiet = plan_.quiet});
  console_.Say(exit.text);
  if (report_) {
    report_->Closed(*outcome_);
  }
  const auto error_file = facts_.environment.find("TORCHELASTIC_ERROR_FILE");
  if (outcome_->root_cause && error_file != facts_.environment.end()) {
    if (const Status written = WriteErrorFile(error_file->second, ReportOf(*outcome_->root_cause));
        !written.ok()) {
      Say(fmt::format("warning: {}", written.message()));
    }
  }
  Finish(exit.code);
}

int App::End(int exit_code) {
  exit_code_ = plan_.fold_exit_code && exit_code != 0 ? 1 : exit_code;
  WriteResult();
  return exit_code_;
}

void App::Say(const std::string& text) {
  console_.Say(fmt::format("lr-launch: {}\n", text));
}

void App::Finish(int exit_code) {
  exit_code_ = exit_code;
  leave_timer_.cancel();
  loop_.stop();
}

}  // namespace lr::launcher
