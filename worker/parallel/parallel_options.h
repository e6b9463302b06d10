#pragma once
/// What the engines can be told: plain structs without c10d, so that whoever only passes settings
/// on (the installed headers among them) stays narrow. Read by the engines when they are made.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

namespace lr::worker {

/// DDP.
struct ReplicatedOptions {
  bool find_unused_parameters = true;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  bool broadcast_buffers =
      true;  ///< before every forward; off for modules whose buffers never change in training
};

/// Exactly one source of units.
struct WrapRequest {
  std::vector<std::string> class_names = {};             ///< "ACTEncoderLayer"
  bool names_are_declared = false;                       ///< by the policy: one of them is enough
  std::optional<int64_t> min_num_params = std::nullopt;  ///< blocks with more elements than this
  std::optional<std::string> ignored_modules =
      std::nullopt;  ///< regex, full match of a module's full name
};

/// Dtypes of a sharded run; unset: the parameter's own.
struct ShardPrecision {
  std::optional<c10::ScalarType> param_dtype;   ///< gathered parameters and compute
  std::optional<c10::ScalarType> reduce_dtype;  ///< gradient exchange and its accumulation
  std::optional<c10::ScalarType> output_dtype;  ///< floating outputs of every unit
  bool cast_forward_inputs = true;              ///< floating inputs to param_dtype
};

/// FSDP and HSDP.
struct ShardedOptions {
  WrapRequest wrap;
  ShardPrecision precision;
  bool reshard_after_forward = true;
  bool cpu_offload = false;
  bool find_unused_parameters = true;  ///< off: every parameter must get a gradient in every step
};

}  // namespace lr::worker
