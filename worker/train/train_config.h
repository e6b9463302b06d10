#pragma once
/// The training configuration: every flag of `lr-train` as plain data (dataset_and_training_loop.md
/// H.7).
///
/// Read by ParseTrainCommandLine (train_command_line.h), written by ToJson. Names, defaults and
/// help texts are declared once, in train_config_fields.cc. No LibTorch; copies share the policy's
/// configuration.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"
#include "worker/accelerator/accelerator_config.h"
#include "worker/data/dataset_config.h"
#include "worker/optim/optimizer_config.h"
#include "worker/policies/policy_config.h"

namespace lr::worker {

enum class CheckpointFormat { kSafetensors, kDcp, kSafetensorsDcp };

struct EvalConfig {
  int64_t n_episodes = 50;
  int64_t batch_size = 0;
  bool use_async_envs = true;
  bool recording = false;
  std::optional<std::string> recording_repo_id;
  bool recording_private = false;
};

struct EmaConfig {
  bool enable = false;
  std::optional<double> decay;
  int64_t update_after_step = 0;
  double inv_gamma = 1.0;
  double power = 0.75;
  double min_decay = 0.0;
  double max_decay = 0.9999;
  bool use_for_eval = true;
};

struct WandbConfig {
  bool enable = false;
  bool disable_artifact = false;
  std::string project = "lerobot";
  std::optional<std::string> entity;
  std::optional<std::string> notes;
  std::optional<std::string> run_id;
  std::optional<std::string> mode;
  bool add_tags = true;
};

struct TrackioConfig {
  bool enable = false;
  std::string project = "lerobot";
  std::optional<std::string> name;  ///< null: the job name
  std::optional<std::string> run_id;
  std::optional<std::string> notes;
  std::optional<std::string> dir;
  std::optional<std::string> space_id;
};

struct PeftConfig {
  Json target_modules;  ///< null, a string (regular expression or all-linear) or a list of strings
  std::optional<std::vector<std::string>> full_training_modules;
  std::string method_type = "LORA";
  std::optional<std::string> init_type;
  int64_t r = 16;
  std::optional<int64_t> lora_alpha;
};

struct JobConfig {
  std::optional<std::string> target;
  std::string image = "huggingface/lerobot-gpu:latest";
  std::string timeout = "2d";
  bool detach = false;
  std::vector<std::string> tags;
};

struct SampleWeightingConfig {
  std::string type = "rabc";
  std::optional<std::string> progress_path;
  std::string head_mode = "sparse";
  double kappa = 0.01;
  double epsilon = 1e-6;
  Json extra_params = Json::object();
};

/// Fields in the order in which LeRobot 0.6.2 writes them; the newer ones and our own stand where
/// they belong by topic and are written only when they differ from their default.
struct TrainConfig {
  DatasetConfig dataset;
  Json env;  ///< refused unless null
  std::shared_ptr<PolicyConfig> policy;
  Json reward_model;       ///< refused unless null
  std::string output_dir;  ///< filled in by ParseTrainCommandLine when not given
  std::string job_name;    ///< the policy's type when not given
  bool resume = false;
  std::optional<int64_t> seed = 1000;
  bool seed_offset_per_rank = false;  ///< ours: the runtime random stream differs from rank to rank
  bool cudnn_deterministic = false;
  std::optional<bool> tf32 = true;
  int64_t num_workers = 4;
  int64_t batch_size = 8;  ///< per data-parallel worker
  int64_t prefetch_factor = 4;
  bool persistent_workers = true;
  std::optional<std::string> dataloader_multiprocessing_context =
      "spawn";  ///< checked, without effect: threads
  int64_t steps = 100000;
  int64_t env_eval_freq = 20000;
  int64_t log_freq = 200;
  int64_t eval_steps = 0;
  int64_t max_eval_samples = 0;
  double tolerance_s = 1e-4;
  bool save_checkpoint = true;
  int64_t save_freq = 20000;
  int64_t keep_checkpoints = 0;  ///< ours: 0 keeps all
  CheckpointFormat checkpoint_format = CheckpointFormat::kSafetensors;
  bool use_policy_training_preset = true;
  std::optional<OptimizerConfig> optimizer;
  std::optional<SchedulerConfig> scheduler;
  ParallelismConfig parallelism;
  AcceleratorConfig accelerator;
  EvalConfig eval;
  EmaConfig ema;
  WandbConfig wandb;
  TrackioConfig trackio;
  std::optional<PeftConfig> peft;
  JobConfig job;
  bool save_checkpoint_to_hub = false;
  std::optional<SampleWeightingConfig> sample_weighting;
  std::map<std::string, std::string> rename_map;  ///< dataset key -> policy key
  std::optional<std::string>
      checkpoint_path;  ///< the step directory that a resumed run continues from

  /// Keys of a checkpoint's file that we do not know, nested as found there; written back
  /// unchanged.
  Json unknown_keys = Json::object();
};

/// The content of train_config.json: LeRobot 0.6.2's keys in its order; newer keys and our own only
/// where they differ from their default; unknown keys that came with a checkpoint at the end of
/// their group.
Json ToJson(const TrainConfig& config);

/// The bytes of train_config.json and config.json: Python's form, indent 4.
std::string DumpConfigFile(const Json& json);

}  // namespace lr::worker
