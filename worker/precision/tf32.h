#pragma once
/// One decision for TF32 in matrix products and convolutions (REQ-MP-14). Called once at start-up
/// by the trainer on the step thread, before any tensor work; has no effect without an NVIDIA GPU
/// and cannot fail.

#include <optional>
#include <string>

namespace lr::worker {

/// true: float32 products and convolutions may use TF32 on NVIDIA Ampere and newer; false: full
/// float32; nullopt: LibTorch's own settings stay.
void ApplyTf32(std::optional<bool> allow);

/// What is in force now, for the log: "TF32: matmul on, convolution on".
std::string DescribeTf32();

}  // namespace lr::worker
