#pragma once
/// rng_state.safetensors (checkpoints.md 3.8): torch's CPU generator, the device's, and the states
/// of Python's and NumPy's generators, which we do not use but must hand on so that Python can
/// resume from our checkpoints.
///
/// Thread: step thread.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "common/base/status.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {

/// The generators of a Python process, as the file stores them.
struct PythonRngState {
  std::array<uint32_t, 624> python_words{};
  int64_t python_index = 624;
  std::array<uint32_t, 624> numpy_words{};
  int64_t numpy_index = 624;
  bool numpy_has_gauss = false;
  float numpy_cached_gaussian = 0.0F;

  /// What `random.seed(seed)` and `numpy.random.seed(seed)` give; NumPy takes the seed modulo 2^32.
  static PythonRngState Seeded(uint64_t seed);
};

struct RngState {
  PythonRngState python;
  at::Tensor torch_cpu;     ///< uint8 [5056]
  at::Tensor torch_device;  ///< uint8 [16], CUDA only; else undefined
};

/// This process's torch generators now, with `python` handed on. `device`: the device in use.
RngState CaptureRngState(const PythonRngState& python,
                         c10::Device device = c10::Device(c10::DeviceType::CPU));

/// Sets torch's generators. The device's state is ignored when the device is absent or not CUDA.
Status ApplyRngState(const RngState& state, c10::Device device = c10::Device(c10::DeviceType::CPU));

NamedTensors RngTensors(const RngState& state);

/// Reads and checks the file; nothing is applied. Accepts the CPU blob of 5048 bytes of old
/// releases.
Result<RngState> LoadRngState(const std::filesystem::path& file);

}  // namespace lr::worker
