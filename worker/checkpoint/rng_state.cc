#include "worker/checkpoint/rng_state.h"

#include <cstring>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>

#include "worker/checkpoint/mt19937_seed.h"

namespace lr::worker {
namespace {

constexpr int64_t kWords = 624;
constexpr int64_t kPythonVersion = 3;
constexpr int64_t kCpuBlobBytes = 5056;
constexpr int64_t kOldCpuBlobBytes = 5048;
constexpr int64_t kCudaBlobBytes = 16;

// Offsets in torch's CPU blob (checkpoints.md 3.8).
constexpr size_t kLeftOffset = 8;
constexpr size_t kSeededOffset = 12;
constexpr size_t kNextOffset = 16;

at::Tensor Int64Tensor(const std::vector<int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

std::vector<int64_t> Widen(const Mt19937Words& words) {
  return {words.begin(), words.end()};
}

/// A tensor of the file with the dtype and length that the format fixes.
Result<at::Tensor> LoadChecked(const SafetensorsFile& file,
                               const std::string& name,
                               c10::ScalarType type,
                               int64_t length) {
  LR_ASSIGN(at::Tensor tensor, file.Load(name));
  if (tensor.scalar_type() != type || tensor.dim() != 1 || tensor.size(0) != length) {
    return InvalidArgument("'{}': {} is {} [{}], expected {} [{}]",
                           file.path().string(),
                           name,
                           c10::toString(tensor.scalar_type()),
                           fmt::join(tensor.sizes(), ", "),
                           c10::toString(type),
                           length);
  }
  return tensor;
}

Result<int64_t> LoadInteger(const SafetensorsFile& file,
                            const std::string& name,
                            int64_t minimum,
                            int64_t maximum) {
  LR_ASSIGN(const at::Tensor tensor, LoadChecked(file, name, at::kLong, 1));
  const auto value = *tensor.const_data_ptr<int64_t>();
  if (value < minimum || value > maximum) {
    return InvalidArgument("'{}': {} is {}, allowed are {} to {}",
                           file.path().string(),
                           name,
                           value,
                           minimum,
                           maximum);
  }
  return value;
}

Status CopyWords(const SafetensorsFile& file,
                 const std::string& name,
                 const int64_t* values,
                 Mt19937Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (values[i] < 0 || values[i] > UINT32_MAX) {
      return InvalidArgument(
          "'{}': {}[{}] is {}, not a 32-bit word", file.path().string(), name, i, values[i]);
    }
    words[i] = static_cast<uint32_t>(values[i]);
  }
  return {};
}

Status LoadPython(const SafetensorsFile& file, PythonRngState& python) {
  LR_TRY(LoadInteger(file, "py_rng_version", kPythonVersion, kPythonVersion));
  LR_ASSIGN(const at::Tensor state, LoadChecked(file, "py_rng_state", at::kLong, kWords + 1));
  const auto* values = state.const_data_ptr<int64_t>();
  LR_TRY(CopyWords(file, "py_rng_state", values, python.python_words));
  python.python_index = values[kWords];
  if (python.python_index < 0 || python.python_index > kWords) {
    return InvalidArgument("'{}': py_rng_state has index {}, allowed are 0 to {}",
                           file.path().string(),
                           python.python_index,
                           kWords);
  }
  return {};
}

Status LoadNumpy(const SafetensorsFile& file, PythonRngState& python) {
  LR_ASSIGN(const at::Tensor words, LoadChecked(file, "np_rng_state_values", at::kLong, kWords));
  LR_TRY(
      CopyWords(file, "np_rng_state_values", words.const_data_ptr<int64_t>(), python.numpy_words));
  LR_ASSIGN(python.numpy_index, LoadInteger(file, "np_rng_state_index", 0, kWords));
  LR_ASSIGN(const int64_t has_gauss, LoadInteger(file, "np_rng_has_gauss", 0, 1));
  python.numpy_has_gauss = has_gauss == 1;
  LR_ASSIGN(const at::Tensor cached, LoadChecked(file, "np_rng_cached_gaussian", at::kFloat, 1));
  python.numpy_cached_gaussian = *cached.const_data_ptr<float>();
  return {};
}

template <typename T>
T FieldAt(const at::Tensor& blob, size_t offset) {
  T value{};
  std::memcpy(&value, static_cast<const char*>(blob.const_data_ptr()) + offset, sizeof(T));
  return value;
}

/// torch itself checks less: a `next` out of range would make it read beyond its words.
Result<at::Tensor> LoadCpuBlob(const SafetensorsFile& file) {
  const SafetensorsEntry* entry = file.Find("torch_rng_state");
  const bool is_old = entry != nullptr && entry->bytes() == kOldCpuBlobBytes;
  LR_ASSIGN(
      at::Tensor blob,
      LoadChecked(file, "torch_rng_state", at::kByte, is_old ? kOldCpuBlobBytes : kCpuBlobBytes));
  if (is_old) {  // the last field, a cached float normal, did not exist yet: not valid
    blob = at::cat({blob, at::zeros({kCpuBlobBytes - kOldCpuBlobBytes}, blob.options())});
  }
  const auto left = FieldAt<int32_t>(blob, kLeftOffset);
  const auto seeded = FieldAt<int32_t>(blob, kSeededOffset);
  const auto next = FieldAt<uint64_t>(blob, kNextOffset);
  if (left < 1 || left > kWords || next > kWords || seeded != 1) {
    return InvalidArgument(
        "'{}': torch_rng_state is no valid generator (left {}, next {}, seeded {})",
        file.path().string(),
        left,
        next,
        seeded);
  }
  return blob;
}

bool UsesCuda(c10::Device device) {
  return device.is_cuda() && at::hasCUDA();
}

}  // namespace

PythonRngState PythonRngState::Seeded(uint64_t seed) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed)};
  if (const auto high = static_cast<uint32_t>(seed >> 32); high != 0) {
    key.push_back(high);
  }
  PythonRngState state;
  state.python_words = SeedMt19937ByArray(key);
  state.numpy_words = SeedMt19937(static_cast<uint32_t>(seed));
  return state;
}

RngState CaptureRngState(const PythonRngState& python, c10::Device device) {
  RngState state;
  state.python = python;
  {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    state.torch_cpu = generator.get_state();
  }
  if (UsesCuda(device)) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    state.torch_device = generator.get_state();
  }
  return state;
}

Status ApplyRngState(const RngState& state, c10::Device device) {
  try {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state.torch_cpu);
    if (UsesCuda(device) && state.torch_device.defined()) {
      at::Generator cuda = at::globalContext().defaultGenerator(device);
      const std::lock_guard cuda_lock(cuda.mutex());
      cuda.set_state(state.torch_device);
    }
  } catch (const c10::Error& error) {
    return InvalidArgument("torch refuses the random state: {}", error.what_without_backtrace());
  }
  return {};
}

NamedTensors RngTensors(const RngState& state) {
  const PythonRngState& python = state.python;
  std::vector<int64_t> python_words = Widen(python.python_words);
  python_words.push_back(python.python_index);
  NamedTensors tensors = {
      {"py_rng_version", Int64Tensor({kPythonVersion})},
      {"py_rng_state", Int64Tensor(python_words)},
      {"np_rng_state_values", Int64Tensor(Widen(python.numpy_words))},
      {"np_rng_state_index", Int64Tensor({python.numpy_index})},
      {"np_rng_has_gauss", Int64Tensor({python.numpy_has_gauss ? 1 : 0})},
      {"np_rng_cached_gaussian",
       at::full({1}, python.numpy_cached_gaussian, at::TensorOptions().dtype(at::kFloat))},
      {"torch_rng_state", state.torch_cpu}};
  if (state.torch_device.defined()) {
    tensors.emplace_back("torch_cuda_rng_state", state.torch_device);
  }
  return tensors;
}

Result<RngState> LoadRngState(const std::filesystem::path& path) {
  LR_ASSIGN(const SafetensorsFile file, SafetensorsFile::Open(path));
  RngState state;
  LR_TRY(LoadPython(file, state.python));
  LR_TRY(LoadNumpy(file, state.python));
  LR_ASSIGN(state.torch_cpu, LoadCpuBlob(file));
  if (file.Find("torch_cuda_rng_state") != nullptr) {
    LR_ASSIGN(state.torch_device,
              LoadChecked(file, "torch_cuda_rng_state", at::kByte, kCudaBlobBytes));
  }
  return state;
}

}  // namespace lr::worker
