#include "worker/train/train_main.h"

#include <cstdio>
#include <ctime>

#include <spdlog/spdlog.h>

#include "common/contract/error_file.h"
#include "common/contract/exit_codes.h"
#include "common/contract/foreign_environment.h"
#include "worker/train/console.h"

namespace lr::worker {

namespace {

/// The process-wide inbox of the signal handlers.
ControlInbox& Inbox() {
  static ControlInbox inbox;
  return inbox;
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
    case StatusCode::kDataLoss:  // a damaged checkpoint or dataset stays so: no restart helps
      return kExitUsage;
    case StatusCode::kAborted:  // trained and saved
      return kExitPublishFailed;
    case StatusCode::kInternal:
      return kExitInternal;
    default:
      return 1;
  }
}

/// For the launcher, which may end this process's siblings, and so the rank that says it, before
/// they have spoken.
int LeaveReason(const WorkerEnvironment& environment, int exit_code, const std::string& text) {
  if (!environment.error_file.empty()) {
    const Status left =
        WriteErrorFile(environment.error_file,
                       {.message = text, .exit_code = exit_code, .unix_s = std::time(nullptr)});
    if (!left.ok()) {
      std::fprintf(stderr, "lr-train: warning: %s\n", left.message().c_str());
    }
  }
  return exit_code;
}

/// Shown once per node: before the ranks have met, the other local ranks would only repeat it.
int FailEarly(const WorkerEnvironment& environment, int exit_code, const std::string& text) {
  if (environment.local_rank == 0) {
    std::fprintf(stderr, "lr-train: error: %s\n", text.c_str());
  }
  return LeaveReason(environment, exit_code, text);
}

ResolvedEngineFacts Facts(const TrainConfig& config) {
  constexpr const char* kPrecisions[] = {"no", "bf16", "fp16"};
  ResolvedEngineFacts facts;
  facts.mixed_precision = kPrecisions[static_cast<int>(config.accelerator.mixed_precision)];
  facts.sharded = config.parallelism.dp_shard != 1;
  facts.device = config.policy->device;
  facts.gradient_accumulation_steps =
      static_cast<int>(config.accelerator.gradient_accumulation.steps);
  return facts;
}

int RunToTheEnd(TrainingRun& run, const WorkerEnvironment& environment) {
  const Result<RunEnd> end = run.Run();
  run.Goodbye(end);
  if (!end.ok()) {
    // After the ranks agreed, all hold the same message: the main process says it, others only what
    // happened to them alone.
    const bool alone = end.status().code() == StatusCode::kUnavailable ||
                       end.status().code() == StatusCode::kInternal;
    if (environment.rank == 0 || alone) {
      SPDLOG_ERROR("{}", end.status().message());
    }
    return LeaveReason(environment, ExitCodeOf(end.status()), end.status().message());
  }
  const int signal = Inbox().stop_signal();
  return *end == RunEnd::kStopped && signal != 0 ? 128 + signal : kExitOk;
}

}  // namespace

int TrainMain(const std::vector<std::string>& args, const StepObserver& observer) {
  const Result<WorkerEnvironment> environment = ReadWorkerEnvironment(ProcessEnvironment());
  if (!environment.ok()) {
    return FailEarly({}, kExitUsage, environment.status().message());
  }
  Result<ParsedConfig> parsed = ParseTrainCommandLine(args);
  if (!parsed.ok()) {
    return FailEarly(*environment, kExitUsage, parsed.status().message());
  }
  if (!parsed->help.empty()) {
    std::fputs(parsed->help.c_str(), stdout);
    return kExitOk;
  }
  const ForeignEnvironmentReport foreign =
      CheckForeignEnvironment(ProcessEnvironmentSnapshot(), Facts(parsed->config));
  if (foreign.refused()) {
    return FailEarly(*environment, kExitConfigRefused, ForeignRefusalText(foreign));
  }
  InstallSignalHandlers(Inbox());
  SetUpConsole(environment->rank == 0, nullptr);
  ForeignVariables acknowledged;
  if (!foreign.quiet()) {
    SPDLOG_WARN("{}", ForeignWarningText(foreign));
    for (const ForeignVariable& variable : foreign.offenders) {
      acknowledged.emplace_back(variable.name, variable.value);
    }
  }
  TrainingRun run(std::move(parsed).value(), *environment, Inbox(), std::move(acknowledged));
  run.Observe(observer);
  return RunToTheEnd(run, *environment);
}

}  // namespace lr::worker
