#pragma once
/// (pure) What the merged file of a sharded model looks like: names, order and offsets of its
/// tensors, decided from the shards' metadata alone (checkpoints.md 3.13, 4.6). Called by
/// conversion.h before anything is written; errors are kInvalidArgument and kUnimplemented.

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tools/lr_convert_dcp/adapter_names.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/safetensors_header.h"

namespace lr {

struct MergePlan {
  bool is_adapter = false;
  worker::SafetensorsHeader header;         ///< as the reference writer lays it out, format=pt
  std::string encoded;                      ///< the file's first bytes
  std::map<std::string, std::string> keys;  ///< name in the file -> key in the shards
  std::vector<std::string> left_out;        ///< an adapter's frozen base
  std::vector<std::string> values;  ///< keys that are no tensors: a file has no place for them

  uint64_t file_bytes() const;
  uint64_t largest_tensor() const;
};

/// The one top-level key (`model`) is unwrapped as LeRobot's converter does. `bias` matters for
/// shards of a PEFT run that hold everything.
Result<MergePlan> PlanMerge(const worker::DcpMetadata& metadata,
                            AdapterBias bias = AdapterBias::kNone);

}  // namespace lr
