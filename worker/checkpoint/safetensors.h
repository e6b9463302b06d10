#pragma once
/// safetensors files with tensors: a strict reader and a writer whose files equal the reference
/// writer's byte for byte.
///
/// Any thread; blocking. Format and checks: safetensors_header.h. The reader (positioned_file.h)
/// copies each tensor exactly once, into memory of its own. The writer streams one tensor at a
/// time into a temporary sibling, flushes it and renames it.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/positioned_file.h"
#include "worker/checkpoint/safetensors_header.h"

namespace lr::worker {

/// Tensors by name, in an order that matters to the caller.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class SafetensorsFile {
 public:
  /// Opens and checks the whole header; no tensor is read. Errors name the file.
  static Result<SafetensorsFile> Open(const std::filesystem::path& path,
                                      const SafetensorsLimits& limits = {});

  const std::filesystem::path& path() const { return file_.path(); }

  const SafetensorsMetadata& metadata() const { return header_.metadata; }

  /// In data order.
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }

  std::vector<std::string> names() const;

  /// Null when there is no such tensor.
  const SafetensorsEntry* Find(const std::string& name) const;

  /// A host tensor with its own memory. Fails on unknown names, on types that torch does not have,
  /// on short reads.
  Result<at::Tensor> Load(const std::string& name) const;

  /// Everything, in data order.
  Result<NamedTensors> LoadAll() const;

 private:
  SafetensorsFile(PositionedFile file, SafetensorsHeader header);

  PositionedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t> index_;
};

/// Writes `tensors` (any device, any strides) and returns the file's size and checksum. Without
/// metadata there is no
/// `__metadata__`. Peak memory: one tensor, and only for those not contiguous on the host. On
/// failure `path` is untouched.
Result<WrittenFile> WriteSafetensors(const std::filesystem::path& path,
                                     const NamedTensors& tensors,
                                     const SafetensorsMetadata& metadata = {});

/// Size that WriteSafetensors will reach, for the check of free space.
Result<uint64_t> SafetensorsFileSize(const NamedTensors& tensors,
                                     const SafetensorsMetadata& metadata = {});

}  // namespace lr::worker
