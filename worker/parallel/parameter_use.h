#pragma once
/// Which parameters and unit calls a loss depends on, on this rank and on all: agreed on before
/// backward starts, because a rank that waited for a gradient that never comes would leave its
/// peers inside a collective (sharded_training.md 2.5).

#include <cstdint>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include "worker/comm/shard_groups.h"

namespace lr::worker {

/// Every node of the graph under `loss`, this one's included; empty for a loss without a graph.
std::unordered_set<const torch::autograd::Node*> ReachableNodes(const at::Tensor& loss);

/// By slot and by call: how many ranks use it.
struct ParameterUse {
  std::vector<std::vector<int32_t>> slots;  ///< [unit][slot]
  std::vector<int32_t> ignored;             ///< by ignored parameter
  std::vector<int32_t> calls;

  /// Sums over all ranks of the run. Collective unless there is one.
  void SumOver(const ShardGroups& groups);

  /// Whether all ranks use the same things.
  bool IsUniform(int world_size) const;
};

}  // namespace lr::worker
