#pragma once
/// One sharding unit: the parameters of a block, each held as this rank's shard of rows, made
/// present for compute by one all-gather and freed again by swapping the storage behind the
/// module's own parameter (sharded_training.md 1.2, 1.6, 1.7, 2.9). The module's parameter object,
/// its version counter and its gradient accumulator never change. Owned and driven by
/// ShardedEngine on the step thread; throws as collectives do.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/comm/shard_groups.h"
#include "worker/parallel/parallel_options.h"
#include "worker/parallel/shard_layout.h"

namespace lr::worker {

/// A parameter of the module tree before it is sharded.
struct UnitParameter {
  std::vector<std::string> names;  ///< all full names of the same tensor, canonical first
  at::Tensor parameter;
};

/// One parameter of a unit.
struct ShardSlot {
  std::vector<std::string> names;
  std::vector<int64_t> shape;  ///< of the whole parameter
  ShardLayout layout;
  bool trainable = false;
  at::Tensor leaf;         ///< the module's parameter; its storage is empty while sharded
  at::Tensor gathered;     ///< 1-D over the same storage: writing here leaves leaf's version alone
  at::Tensor padded;       ///< 1-D, this rank's rows and the padding, in the original dtype
  at::Tensor shard;        ///< [rows, …] over the front of `padded`: the optimizer's parameter
  at::Tensor gradient;     ///< of the whole parameter, between backward and reduction
  at::Tensor accumulated;  ///< sum over the passes of a window that exchange nothing

  const std::string& name() const { return names.front(); }
};

class ShardedUnit {
 public:
  /// Cuts the parameters (equal on all ranks by now) and frees the whole ones.
  ShardedUnit(std::string name,
              std::vector<UnitParameter> parameters,
              const ShardGroups& groups,
              const ShardPrecision& precision,
              bool cpu_offload);

  /// Empty for the root.
  const std::string& name() const { return name_; }

  /// In messages: "unit 'encoder.0'", "the root unit".
  const std::string& title() const { return title_; }

  std::vector<ShardSlot>& slots() { return slots_; }

  const std::vector<ShardSlot>& slots() const { return slots_; }

  int trainable_slots() const { return trainable_slots_; }

  bool has_frozen_slots() const { return trainable_slots_ < static_cast<int>(slots_.size()); }

  bool is_sharded() const { return state_ == State::kSharded; }

  /// Starts the all-gather; nothing when it runs already or the parameters are present.
  void StartGather();

  /// Parameters are present afterwards; starts the gather when nobody did.
  void FinishGather();

  /// Frees the whole parameters; a gather in flight is waited for.
  void Release();

  /// Takes part in a gather that only other ranks need; the buffer is dropped by the caller after
  /// the work.
  struct Scratch {
    at::Tensor buffer;
    Collective gather;
  };

  Scratch StartScratchGather() const;

  /// Moves the gradients of a pass that exchanges nothing into the accumulators.
  void Accumulate();

  bool has_accumulated() const;

  /// [shard_size, n] in the reduce dtype: gradients and accumulators by receiving rank, zeros where
  /// a slot has none. Consumes both.
  at::Tensor TakeReductionRows();

  /// Sets (or adds to) the shards' gradients from the sum over all ranks, divided by their number.
  /// `is_used`, by trainable slot: false leaves that gradient undefined.
  void StoreReduced(const at::Tensor& sum, const std::vector<bool>& is_used);

 private:
  enum class State { kSharded, kGathering, kPresent };

  void AddSlot(UnitParameter parameter);
  at::Tensor FillGatherBuffer() const;
  at::ScalarType reduce_dtype() const;

  std::string name_;
  std::string title_;
  const ShardGroups& groups_;
  ShardPrecision precision_;
  bool cpu_offload_;
  std::vector<ShardSlot> slots_;
  int trainable_slots_ = 0;
  State state_ = State::kSharded;
  at::Tensor buffer_;  ///< bytes of a gather in flight, [shard_size * n]
  Collective gathering_;
};

}  // namespace lr::worker
