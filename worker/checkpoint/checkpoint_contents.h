#pragma once
/// What one checkpoint consists of: live objects (CheckpointContents), and their copies in host
/// memory (CheckpointSnapshot), which is all that blocks training.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"
#include "worker/checkpoint/dcp/dcp_save.h"
#include "worker/checkpoint/model_file.h"
#include "worker/checkpoint/rng_state.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/training_step.h"
#include "worker/optim/grad_scaler.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/schedule.h"

namespace lr::worker {

/// A file of pretrained_model/ beside model and configuration: processor JSON or processor tensors.
struct SideFile {
  std::string name;  ///< one plain file name
  std::variant<std::string, NamedTensors> content;
};

/// A folder of the checkpoint that all ranks write together.
struct ShardedFolder {
  std::string path;  ///< relative to the step directory
  DcpSave save;      ///< this rank's part
};

/// Filled by the trainer at a step boundary. Pointers and tensors are the live ones. Ranks other
/// than the main one fill step and shards only.
struct CheckpointContents {
  TrainingStep step;
  int64_t total_steps = 0;  ///< decides the width of the directory name
  std::string config_json;
  std::string train_config_json;
  std::optional<NamedTensors> model;  ///< of the whole policy; none: it is in the shards alone
  bool model_is_copy = false;         ///< gathered for this save: host memory that nobody changes
  std::vector<SideFile> side_files;  ///< in the order of 3.3: states of the preprocessor, its JSON,
                                     ///< then the postprocessor's
  const Optimizer* optimizer = nullptr;    ///< null: it is in the shards
  const LrScheduler* scheduler = nullptr;  ///< null: no scheduler file
  const GradScaler* scaler = nullptr;      ///< null: no scaler file
  std::optional<RngState> rng;
  std::vector<ShardedFolder> shards;
};

struct OptimizerSnapshot {
  NamedTensors state;
  Json groups;
};

/// Owns everything; may be written by another thread while training goes on.
struct CheckpointSnapshot {
  TrainingStep step;
  int64_t total_steps = 0;
  std::string config_json;
  std::string train_config_json;
  std::optional<TiedState> model;
  std::vector<SideFile> side_files;
  std::optional<OptimizerSnapshot> optimizer;
  std::optional<Json> scheduler;
  std::optional<Json> scaler;
  NamedTensors rng;
  std::vector<ShardedFolder> shards;
};

/// Copies every tensor to host memory of its own. Cost: one pass over what this rank writes. Throws
/// what LibTorch throws (out of memory), like other tensor code of the step thread.
CheckpointSnapshot TakeSnapshot(CheckpointContents contents);

/// About what this rank's files will occupy.
uint64_t SnapshotBytes(const CheckpointSnapshot& snapshot);

}  // namespace lr::worker
