#pragma once
/// model.safetensors: a module's whole state, parameters and buffers, under their full names
/// (policies.md 0.3, checkpoints.md 1.5). Called by the step thread (loading, gathering) and the
/// checkpoint writer (saving).

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/safetensors.h"

namespace torch::nn {
class Module;
}

namespace lr::worker {

/// Parameters and buffers in the order of PyTorch's state_dict(): a module's own parameters, then
/// its own buffers, then its children, each in order of registration. The tensors are the live
/// ones; undefined ones are left out.
NamedTensors StateDict(const torch::nn::Module& module);

/// Tensors that are the same memory, written once.
struct TiedState {
  NamedTensors kept;
  SafetensorsMetadata aliases;  ///< dropped name -> kept name
};

/// Of several names for the same tensor (storage, offset, shape, strides) the alphabetically first
/// is kept. Tensors that merely overlap are all kept, each written out in full.
TiedState ResolveTies(const NamedTensors& state);

/// Writes the state with `format=pt` and the aliases as metadata. `path` is untouched on failure.
Result<WrittenFile> SaveModel(const NamedTensors& state, const std::filesystem::path& path);
Result<WrittenFile> SaveModel(const TiedState& state, const std::filesystem::path& path);

/// What a file that does not cover the module means.
enum class MissingKeys {
  kError,  ///< resuming: a missing tensor is a failure
  kReport  ///< starting from other weights: listed, and left at their initial values
};

struct ModelLoadReport {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

/// Copies a file's tensors into the module, converting dtype and device. Everything is checked
/// before anything is modified: shapes always, missing names by `missing`. A tied name is satisfied
/// by the name that the file kept.
Result<ModelLoadReport> LoadModel(const std::filesystem::path& path,
                                  torch::nn::Module& module,
                                  MissingKeys missing);

}  // namespace lr::worker
