#pragma once
/// The process groups of a sharded run (sharded_training.md 0.2, 2.6): ranks lie in rows of
/// `shard` members (shard groups) and columns of `replicate` members (replicate groups). Gathers
/// and reductions have groups of their own, so that their order against each other does not matter.
/// Collectives throw as collective.h says; one in flight is waited for by the caller, who keeps the
/// buffers until then. `of` names what is moved, alike on all ranks: "unit 'encoder.0'".

#include <string>

#include <ATen/core/Tensor.h>

#include "worker/comm/collective.h"

namespace lr::worker {

struct ShardGroups {
  int shard_size = 1;
  int shard_rank = 0;
  int replicate_size = 1;
  GroupPtr gather;             ///< this rank's shard group; null: one member
  GroupPtr reduce;             ///< the same ranks
  GroupPtr replicate;          ///< this rank's replicate group; null: one member
  GroupPtr world;              ///< all ranks of the run; null: one
  ComparedStartsPtr compared;  ///< null: collectives are not compared

  int world_size() const { return shard_size * replicate_size; }
};

/// Starts filling `buffer`, [shard_size * n] bytes, from everybody's own slice of it.
Collective StartGather(const ShardGroups& groups, const std::string& of, at::Tensor& buffer);

/// A reduce-scatter whose sum is taken in rank order and in float32, the same on every backend that
/// has no arithmetic of its own (Gloo): rows [shard_size, n] are exchanged, then added.
class PendingReduction {
 public:
  /// `rows` [shard_size, n] in the reduce dtype, this rank's contribution for every member.
  PendingReduction(const ShardGroups& groups, std::string of, at::Tensor rows);

  /// Waits; the sum [n] over all ranks of the run, in the reduce dtype.
  at::Tensor Wait();

 private:
  const ShardGroups& groups_;
  std::string of_;
  at::Tensor rows_;
  at::Tensor received_;
  Collective exchange_;
};

/// In place, over all ranks of the run.
void SumOverWorld(const ShardGroups& groups, const std::string& of, at::Tensor& values);

/// In place, over the shard group.
void SumOverShards(const ShardGroups& groups, const std::string& of, at::Tensor& values);
void MaxOverShards(const ShardGroups& groups, const std::string& of, at::Tensor& values);

/// Everybody's `values`, of one shape on all ranks of the run, one behind the other by rank along
/// dim 0; [] counts as [1].
at::Tensor GatherOverWorld(const ShardGroups& groups,
                           const std::string& of,
                           const at::Tensor& values);

/// Rank 0's values on every rank of the run, in place.
void BroadcastOverWorld(const ShardGroups& groups, const std::string& of, at::Tensor& values);

}  // namespace lr::worker
