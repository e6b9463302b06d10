// The path of a training run from top to bottom, one named step per line.
#include "worker/train/training_run.h"

#include <spdlog/spdlog.h>

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
  PrintConfiguration();
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
  LR_TRY(accelerator_->wait_for_everyone());
  if (stop_) {
    SPDLOG_INFO("Stopped at step {} of {} on request.", step_, config_.steps);
    return RunEnd::kStopped;
  }
  SPDLOG_INFO("End of training");
  return RunEnd::kDone;
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
