#pragma once
/// The process groups of a sharded run (sharded_training.md 0.2, 2.6): ranks lie in rows of
/// `shard` members (shard groups) and columns of `replicate` members (replicate groups). Gathers
/// and reductions have groups of their own, so that their order against each other does not matter.
/// Collectives throw c10d's exceptions; a returned Work is waited for by the caller, who keeps the
/// buffers until then. Step thread.

#include <string>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lr::worker {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

struct ShardGroups {
  int shard_size = 1;
  int shard_rank = 0;
  int replicate_size = 1;
  GroupPtr gather;     ///< this rank's shard group; null: one member
  GroupPtr reduce;     ///< the same ranks
  GroupPtr replicate;  ///< this rank's replicate group; null: one member
  GroupPtr world;      ///< all ranks of the run; null: one

  int world_size() const { return shard_size * replicate_size; }
};

/// Starts filling `buffer`, [shard_size * n] bytes, from everybody's own slice of it. Null when the
/// group has one member.
WorkPtr StartGather(const ShardGroups& groups, at::Tensor& buffer);

/// A reduce-scatter whose sum is taken in rank order and in float32, the same on every backend that
/// has no arithmetic of its own (Gloo): rows [shard_size, n] are exchanged, then added.
class PendingReduction {
 public:
  /// `rows` [shard_size, n] in the reduce dtype, this rank's contribution for every member.
  PendingReduction(const ShardGroups& groups, at::Tensor rows);

  /// Waits; the sum [n] over all ranks of the run, in the reduce dtype.
  at::Tensor Wait();

 private:
  const ShardGroups& groups_;
  at::Tensor rows_;
  at::Tensor received_;
  WorkPtr work_;
};

/// In place, over all ranks of the run.
void SumOverWorld(const ShardGroups& groups, at::Tensor& values);

/// In place, over the shard group.
void SumOverShards(const ShardGroups& groups, at::Tensor& values);

/// Rank 0's values on every rank of the run, in place.
void BroadcastOverWorld(const ShardGroups& groups, at::Tensor& values);

}  // namespace lr::worker
