// The path of a training run from top to bottom, one named step per line.
#include "worker/train/training_run.h"

#include <spdlog/spdlog.h>

#include "worker/comm/communicator.h"
#include "worker/train/shared_directory.h"

namespace lr::worker {

TrainingRun::TrainingRun(ParsedConfig parsed,
                         WorkerEnvironment environment,
                         ControlInbox& inbox,
                         ForeignVariables acknowledged)
    : parsed_(std::move(parsed)),
      config_(parsed_.config),
      environment_(std::move(environment)),
      inbox_(inbox),
      acknowledged_(std::move(acknowledged)) {}

TrainingRun::~TrainingRun() = default;

Result<RunEnd> TrainingRun::Run() {
  LR_TRY(MeetTheOtherRanks());
  LR_TRY(Everybody(AgreeOnOutputDirectory()));
  LR_TRY(LookForOneDirectory());
  PrintConfiguration();
  PrepareToPublish();
  LR_TRY(Everybody(OpenDataset()));
  LR_TRY(Everybody(FetchWeights()));
  LR_TRY(Everybody(FindResumePoint()));
  LR_TRY(Everybody(BuildPolicy()));
  LR_TRY(Everybody(LoadWeights()));
  LR_TRY(Everybody(BuildProcessors()));
  LR_TRY(Everybody(PrepareModel()));
  LR_TRY(Everybody(BuildOptimizerAndSchedule()));
  LR_TRY(Everybody(Restore()));
  PrepareToSave();
  LR_TRY(Everybody(StartLoader()));
  PrintBanner();
  if (step_ >= config_.steps) {
    SPDLOG_INFO("Step {} of {} is reached: nothing to do.", step_, config_.steps);
    return RunEnd::kDone;
  }
  LR_TRY(Loop());
  LR_TRY(accelerator_->control().Barrier());
  if (stop_) {
    SPDLOG_INFO("Stopped at step {} of {} on request.", step_, config_.steps);
    return RunEnd::kStopped;
  }
  SPDLOG_INFO("End of training");
  LR_TRY(PublishTrained());
  return RunEnd::kDone;
}

/// Node-local checkpoints are no mistake while one rank writes them all: said, not refused. Where
/// every rank writes its part, no save could succeed.
Status TrainingRun::LookForOneDirectory() {
  LR_ASSIGN(const std::string blind,
            HostsWithoutDirectory(
                accelerator_->control(), config_.output_dir, environment_.local_rank == 0));
  if (!blind.empty() && topology_.sharded() && config_.save_checkpoint) {
    return FailedPrecondition(
        "--output_dir={}: {} does not see the main rank's directory of that name, and in a sharded "
        "run every rank writes its part of a checkpoint there; give a directory that all hosts "
        "share, or --save_checkpoint=false",
        config_.output_dir,
        blind);
  }
  if (!blind.empty() && is_main()) {
    SPDLOG_WARN(
        "--output_dir={}: {} does not see the main rank's directory of that name. Checkpoints are "
        "local to the main rank's node; a restart that needs them elsewhere cannot resume.",
        config_.output_dir,
        blind);
  }
  return {};
}

Status TrainingRun::Everybody(const Status& mine) {
  return accelerator_->control().AgreeAll(mine);
}

void TrainingRun::Goodbye(const Result<RunEnd>& end) {
  if (!link_) {
    return;
  }
  if (!end.ok()) {
    link_->ReportFailure(end.status().message());
  }
  link_->Goodbye(!end.ok() ? "failed" : *end == RunEnd::kStopped ? "stopped" : "done");
}

}  // namespace lr::worker
