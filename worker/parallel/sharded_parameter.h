#pragma once
/// A parameter as one rank holds it: what the sharded engine shows to the optimizer, the checkpoint
/// and the counts. Plain struct.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lr::worker {

/// Stands for the module's parameter.
struct ShardedParameter {
  std::vector<std::string> names;  ///< several when it is tied; the optimizer knows the first
  at::Tensor shard;                ///< [rows, …]; of an ignored parameter the whole one
  std::vector<int64_t> full_shape;
  bool is_sharded = true;
  at::Tensor parameter = {};  ///< the module's own; undefined where no module is at hand
};

}  // namespace lr::worker
