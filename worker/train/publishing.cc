// The steps of TrainingRun that publish on the Hub (checkpoints.md 3.15): every checkpoint beside
// the training, where asked for, and the model at the end. The main rank uploads; a failure never
// ends the training, and what to type later is said.
#include <filesystem>

#include <spdlog/spdlog.h>

#include "worker/checkpoint/checkpoint_files.h"
#include "worker/hub/publish_command.h"
#include "worker/train/training_run.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// How long the ranks wait between two signs of life while one of them uploads: no time-out of a
/// collective ends a long upload.
constexpr auto kTurn = std::chrono::seconds(2);
constexpr char kUnpublishedFolder[] = "to_publish";

}  // namespace

void TrainingRun::PrepareToPublish() {
  if (!is_main() || !(config_.policy->push_to_hub || config_.save_checkpoint_to_hub)) {
    return;
  }
  publisher_ = std::make_unique<BackgroundPublisher>(
      ReadHubSettings(ProcessEnvironment()),
      [](std::string_view line) { SPDLOG_INFO("hub: {}", line); });
  if (const Status can = CheckCanPublish(publisher_->settings()); !can.ok()) {
    SPDLOG_WARN("--policy.repo_id={}: nothing will be published as things are: {}",
                *config_.policy->repo_id,
                can.message());
  }
}

void TrainingRun::BeginUpload(const fs::path& pretrained) {
  publisher_->Begin({pretrained, *config_.policy->repo_id, config_.policy->is_private});
}

/// The outcome of the upload, once it is known, after it was said.
std::optional<Status> TrainingRun::FollowUpload(std::chrono::milliseconds patience) {
  const std::optional<Result<std::string>> outcome = publisher_->Poll(patience);
  if (!outcome) {
    return std::nullopt;
  }
  const PublishRequest& request = publisher_->request();
  if (outcome->ok()) {
    SPDLOG_INFO("Model pushed to {}", **outcome);
    return Status();
  }
  SPDLOG_ERROR(
      "'{}' was not published: {}\nTo publish it later:\n  {}",
      request.pretrained.string(),
      outcome->status().message(),
      PublishLaterCommand(request.pretrained.string(), request.repo_id, request.is_private));
  return outcome->status();
}

/// After a save. The final checkpoint is left to PublishTrained() where that publishes anyway.
void TrainingRun::PublishCheckpoint() {
  if (!publisher_ || !config_.save_checkpoint_to_hub) {
    return;
  }
  FollowUpload(std::chrono::milliseconds(0));
  if (saving_step_ == config_.steps && config_.policy->push_to_hub) {
    return;
  }
  if (publisher_->in_progress()) {
    SPDLOG_INFO("The checkpoint of step {} is not published: the upload of '{}' is under way.",
                saving_step_,
                publisher_->request().pretrained.string());
    return;
  }
  BeginUpload(last_checkpoint_ / kPretrainedFolder);
}

/// Collective. The folder to publish on the main rank: of the last checkpoint, or, where that has
/// no whole model, one written for this.
Result<fs::path> TrainingRun::FinalModel() {
  if (config_.save_checkpoint && !ModelIsInShardsAlone()) {
    return last_checkpoint_ / kPretrainedFolder;
  }
  CheckpointContents contents;
  contents.model = WholeModel(Held());
  if (!is_main()) {
    return fs::path();
  }
  DescribePolicy(contents);
  const fs::path folder = fs::path(config_.output_dir) / kUnpublishedFolder;
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directories(folder, error);
  if (error) {
    return Unavailable("cannot create '{}': {}", folder.string(), error.message());
  }
  LR_TRY(WritePretrainedFiles(TakeSnapshot(std::move(contents)), folder));
  return folder / kPretrainedFolder;
}

/// One turn of the main rank; the outcome when nothing is left to upload.
std::optional<Status> TrainingRun::UploadForATurn(std::optional<fs::path>& next) {
  if (inbox_.pending() >= ControlWord::kCheckpointAndStop) {
    publisher_->Stop();
  }
  const std::optional<Status> ended = FollowUpload(kTurn);
  if (publisher_->in_progress()) {
    return std::nullopt;
  }
  if (next) {
    BeginUpload(*std::exchange(next, std::nullopt));
    return std::nullopt;
  }
  return ended.value_or(Status());
}

/// A failure of the run only for those who asked for it in so many words.
Status TrainingRun::NotPublished(const std::string& reason) const {
  if (parsed_.Given("policy.push_to_hub")) {
    return Aborted("trained, but not published: {}", reason);
  }
  SPDLOG_WARN("Trained, but not published: {}", reason);
  return {};
}

/// Collective: all ranks stay until the upload is over, because schedulers take a job whose first
/// ranks have left for a failing one.
Status TrainingRun::PublishTrained() {
  if (!config_.policy->push_to_hub && !config_.save_checkpoint_to_hub) {
    return {};
  }
  std::optional<fs::path> next;
  if (config_.policy->push_to_hub) {
    const Result<fs::path> folder = FinalModel();
    if (const Status collected = Everybody(folder.status()); !collected.ok()) {
      return NotPublished(collected.message());
    }
    next = *folder;
  }
  while (true) {
    link_->SetPhase(Phase::kCheckpoint);
    std::optional<Status> over;
    if (is_main()) {
      over = UploadForATurn(next);
    }
    const std::string word = !over ? "uploading" : over->ok() ? "published" : over->message();
    LR_ASSIGN(const std::string told, accelerator_->control().BroadcastFromMain(word));
    if (told == "uploading") {
      continue;
    }
    if (told != "published") {
      return NotPublished(told);
    }
    if (is_main()) {
      std::error_code ignored;
      fs::remove_all(fs::path(config_.output_dir) / kUnpublishedFolder, ignored);
    }
    return {};
  }
}

}  // namespace lr::worker
