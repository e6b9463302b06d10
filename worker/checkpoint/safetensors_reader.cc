#include <utility>

#include <ATen/Functions.h>

#include "worker/checkpoint/dtype_map.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/safetensors_header_file.h"

namespace lr::worker {

Result<SafetensorsFile> SafetensorsFile::Open(const std::filesystem::path& path,
                                              const SafetensorsLimits& limits) {
  LR_ASSIGN(PositionedFile file, PositionedFile::Open(path));
  LR_ASSIGN(SafetensorsHeader header, ReadSafetensorsHeader(file, limits));
  return SafetensorsFile(std::move(file), std::move(header));
}

SafetensorsFile::SafetensorsFile(PositionedFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {
  for (size_t i = 0; i < header_.entries.size(); ++i) {
    index_.emplace(header_.entries[i].name, i);
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) {
    names.push_back(entry.name);
  }
  return names;
}

const SafetensorsEntry* SafetensorsFile::Find(const std::string& name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &header_.entries[it->second];
}

Result<at::Tensor> SafetensorsFile::Load(const std::string& name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) {
    return NotFound("'{}' has no tensor '{}'", path().string(), name);
  }
  const std::optional<c10::ScalarType> type = FromSafetensors(entry->dtype);
  if (!type) {
    return Unimplemented("'{}': tensor '{}' has dtype {}, which torch does not have",
                         path().string(),
                         name,
                         DtypeName(entry->dtype));
  }
  std::vector<int64_t> shape(entry->shape.begin(), entry->shape.end());
  if (entry->dtype == SafetensorsDtype::kF4) {
    if (shape.empty() || shape.back() % 2 != 0) {
      return Unimplemented(
          "'{}': tensor '{}' has an odd last dimension of 4-bit values", path().string(), name);
    }
    shape.back() /= 2;  // torch packs two values into one element
  }
  // The header's checks bound the size by that of the file.
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(*type));
  if (tensor.nbytes() != entry->bytes()) {
    return Internal("'{}': tensor '{}' has {} bytes, torch expects {}",
                    path().string(),
                    name,
                    entry->bytes(),
                    tensor.nbytes());
  }
  LR_TRY(file_.Read(tensor.data_ptr(), entry->bytes(), header_.data_start + entry->begin));
  return tensor;
}

Result<NamedTensors> SafetensorsFile::LoadAll() const {
  NamedTensors tensors;
  tensors.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) {
    LR_ASSIGN(at::Tensor tensor, Load(entry.name));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace lr::worker
