#pragma once
/// One training run of one rank, from the parsed configuration to the last checkpoint. Read Run()
/// in training_run.cc first: it is the path from top to bottom, one named step per line.
///
/// Owned by main(); everything happens on the calling (step) thread. Members are declared in the
/// order in which they are built, so they are destroyed in reverse: the engine's groups outlive
/// whatever uses them. Every step that can fail on one rank is agreed on by all (Everybody), so
/// that all ranks end with the same message.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "common/log/progress_bar.h"
#include "worker/accelerator/accelerator.h"
#include "worker/accelerator/device_choice.h"
#include "worker/accelerator/topology.h"
#include "worker/checkpoint/resume_source.h"
#include "worker/checkpoint/rng_state.h"
#include "worker/control/control.h"
#include "worker/data/batch_schedule.h"
#include "worker/data/lerobot_dataset.h"
#include "worker/data/loader.h"
#include "worker/hub/background_publisher.h"
#include "worker/optim/schedule.h"
#include "worker/parallel/sharded_parameter.h"
#include "worker/policies/policy.h"
#include "worker/policies/policy_factory.h"
#include "worker/processors/pipeline.h"
#include "worker/train/checkpointing.h"
#include "worker/train/metrics.h"
#include "worker/train/step_agreement.h"
#include "worker/train/train_command_line.h"
#include "worker/train/train_step.h"

namespace lr::worker {

/// Foreign variables that the user acknowledged, name and value.
using ForeignVariables = std::vector<std::pair<std::string, std::string>>;

/// How a run that did not fail ended.
enum class RunEnd { kDone, kStopped };

/// Sees every finished step of this rank with its preprocessed batch; may be null. Used by tests.
using StepObserver =
    std::function<void(int64_t step, const Batch& batch, const StepOutputs& outputs, double lr)>;

class TrainingRun {
 public:
  /// `inbox` holds this rank's requests (signals, launcher). `acknowledged`: foreign variables that
  /// the user accepted.
  TrainingRun(ParsedConfig parsed,
              WorkerEnvironment environment,
              ControlInbox& inbox,
              ForeignVariables acknowledged);
  ~TrainingRun();

  /// Trains to the last step or until all ranks agreed to stop. Collective. Not to be called twice.
  Result<RunEnd> Run();

  void Observe(StepObserver observer) { observer_ = std::move(observer); }

  /// The end as told to the launcher: "done", "stopped" or "failed" with its reason.
  void Goodbye(const Result<RunEnd>& end);

 private:
  // training_setup.cc
  Status MeetTheOtherRanks();
  Status AgreeOnOutputDirectory();
  Status LookForOneDirectory();
  Status OpenDataset();
  Status FetchWeights();
  PolicyOptions WeightsToLoad() const;
  Status BuildPolicy();
  Status BuildProcessors();
  Status PrepareModel();
  std::vector<OptimizerGroup> ParametersByGroup() const;
  Status BuildOptimizerAndSchedule();
  Status StartLoader();

  // training_banner.cc
  void PrintConfiguration() const;
  void PrintBanner() const;

  // train_loop.cc
  Status Loop();
  Status OneStep();
  Result<Batch> NextBatch();
  Status LogWindow();
  Status EvaluateHeldOut();
  Status ActOnRequests();
  bool SaveIsDue() const;

  // resuming.cc
  Status FindResumePoint();
  bool WeightsAreInShards() const;
  Status LoadWeights();
  Status Restore();
  Result<std::vector<std::string>> RestoreOptimizer(const std::vector<ShardedParameter>& held);
  Status RestoreScaler();
  void ApplyGivenLearningRate();
  ResumePosition StartOfData() const;

  // checkpointing.cc
  TrainingStep DescribeStep() const;
  DcpPlace Place() const;
  std::vector<ShardedParameter> Held() const;
  std::optional<NamedTensors> WholeModel(const std::vector<ShardedParameter>& held) const;
  Status AddShards(const std::vector<ShardedParameter>& held, CheckpointContents& contents) const;
  Result<CheckpointContents> Contents() const;
  void PrepareToSave();
  Status SaveCheckpoint(bool wait);
  Status FinishPendingCheckpoint(bool wait);
  Status ReportFailedSave(const Status& failed);
  bool ModelIsInShardsAlone() const;
  void DescribePolicy(CheckpointContents& contents) const;

  // publishing.cc
  void PrepareToPublish();
  void BeginUpload(const std::filesystem::path& pretrained);
  std::optional<Status> FollowUpload(std::chrono::milliseconds patience);
  void PublishCheckpoint();
  Result<std::filesystem::path> FinalModel();
  std::optional<Status> UploadForATurn(std::optional<std::filesystem::path>& next);
  Status NotPublished(const std::string& reason) const;
  Status PublishTrained();

  Status Everybody(const Status& mine);

  bool is_main() const { return environment_.rank == 0; }

  int64_t samples_per_step() const { return config_.batch_size * topology_.dp_world_size(); }

  ParsedConfig parsed_;
  TrainConfig& config_;
  WorkerEnvironment environment_;
  ControlInbox& inbox_;
  ForeignVariables acknowledged_;
  StepObserver observer_;

  DeviceChoice device_;
  Topology topology_;
  std::unique_ptr<Accelerator> accelerator_;
  std::unique_ptr<ControlLink> link_;
  std::shared_ptr<const LeRobotDataset> dataset_;
  std::shared_ptr<const LeRobotDataset> held_out_;  ///< null without a held-out split
  std::shared_ptr<Policy> policy_;
  std::optional<Pipeline> preprocessor_;
  std::optional<Pipeline> postprocessor_;
  std::optional<PreparedModel<Policy>> model_;
  std::optional<AcceleratedOptimizer> optimizer_;
  std::optional<LrScheduler> scheduler_;
  std::optional<AcceleratedScheduler> prepared_scheduler_;  ///< of scheduler_
  std::optional<DirectoryLock> output_lock_;                ///< rank 0
  std::optional<ResumeSource> resume_;
  PythonRngState python_rng_;  ///< handed on from checkpoint to checkpoint
  std::unique_ptr<RankGroup> checkpoint_group_;
  std::unique_ptr<CheckpointWriter> checkpoint_writer_;
  std::filesystem::path last_checkpoint_;           ///< the newest of this run, on the main rank
  std::unique_ptr<BackgroundPublisher> publisher_;  ///< main rank; null: nothing is published
  int64_t saving_step_ = 0;
  int64_t saving_request_ = 0;  ///< the newest request that the save under way answers
  Sharding sharding_;
  std::unique_ptr<DataLoader> loader_;
  std::optional<StepAgreement> agreement_;
  std::optional<MetricsWindow> window_;
  std::optional<ProgressBar> progress_;

  int64_t step_ = 0;
  int64_t epoch_of_last_batch_ = -1;
  bool held_out_was_seeded_ = false;
  bool stop_ = false;
};

}  // namespace lr::worker
