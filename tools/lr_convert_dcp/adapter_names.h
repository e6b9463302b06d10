#pragma once
/// (pure) Which tensors of a PEFT run's shards belong into adapter_model.safetensors, and under
/// which names (checkpoints.md 4.6, 5.3). Called by merge_plan.h.
///
/// Two forms exist. Adapter-only shards hold exactly the file's tensors under the file's names. The
/// others hold everything: the frozen base too, and the adapter's name ("default") inside the
/// names.

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr {

/// What adapter_config.json says about biases.
enum class AdapterBias { kNone, kAll, kLoraOnly };

struct AdapterNames {
  std::map<std::string, std::string> kept;  ///< name in the shards -> name in the file
  std::vector<std::string> left_out;        ///< the frozen base
};

/// One of the names is an adapter's: a component lora_*.
bool HasAdapter(const std::vector<std::string>& names);

/// kUnimplemented when there is more than one adapter.
Result<AdapterNames> ChooseAdapterNames(const std::vector<std::string>& names, AdapterBias bias);

}  // namespace lr
