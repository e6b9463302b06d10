#pragma once
/// Which folders a --checkpoint_dir means, and what is to be done with what lies there
/// (checkpoints.md 3.13, field report FR-18). Reading only; main thread.

#include <filesystem>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace lr {

/// A model's folder, and the checkpoint that it is part of.
struct CheckpointPlace {
  std::filesystem::path pretrained;           ///< config.json and the weights; links resolved
  std::optional<std::filesystem::path> step;  ///< unset: the folder stands alone

  std::filesystem::path shards() const;     ///< pytorch_model_fsdp_0, there or not
  std::filesystem::path optimizer() const;  ///< optimizer_0, there or not; empty without `step`
};

/// A step directory, its pretrained_model, the shard folder itself, a folder with a policy, or a
/// path through `last` to one of them. kNotFound says what was expected.
Result<CheckpointPlace> LocatePlace(const std::filesystem::path& given);

/// What lies in the folder.
struct PlaceFacts {
  bool has_shards = false;
  std::string weights;            ///< name of the merged file that is there; empty: none
  std::string checkpoint_format;  ///< as train_config.json says; empty: not known
};

PlaceFacts LookAt(const CheckpointPlace& place);

enum class Work { kConvert, kNothing, kRefuse };

struct WorkDecision {
  Work work = Work::kRefuse;
  std::string reason;
};

/// (pure) Without shards there is nothing to do where they were converted before (the format says
/// that there were some) or where the weights are only to be published; else that is an error.
WorkDecision DecideWork(const PlaceFacts& facts, const std::string& shards, bool publishes);

}  // namespace lr
