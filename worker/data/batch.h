#pragma once
/// One micro-batch as it travels from the loader through the processors into a policy.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lr::worker {

using TensorMap = std::map<std::string, at::Tensor>;

/// Tensors by dataset key (`observation.state` [B, S] float32, cameras [B, 3, H, W], `action` [B,
/// T, A], `action_is_pad` [B, T] bool, `index`, `episode_index`, `task_index` [B] int64, …) and the
/// task text per sample. Cameras are uint8 0…255 as they leave the loader when stored as video,
/// float 0…1 when stored as images, and normalised float32 after the preprocessor.
struct Batch {
  TensorMap tensors;
  std::vector<std::string> task;

  /// The tensor of that key, or null.
  const at::Tensor* Find(const std::string& key) const {
    const auto it = tensors.find(key);
    return it == tensors.end() ? nullptr : &it->second;
  }
};

/// For the engine that the batch passes through.
template <typename Visitor>
void VisitTensors(Batch& batch, Visitor&& visit) {
  for (auto& [key, tensor] : batch.tensors) {
    visit(tensor);
  }
}

}  // namespace lr::worker
