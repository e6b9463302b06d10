#include <map>
#include <utility>

#include <ATen/core/Tensor.h>

#include "worker/checkpoint/dtype_map.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

/// The file's header, and which tensor each of its entries is.
struct Plan {
  SafetensorsHeader header;
  std::string encoded;
  std::map<std::string, const at::Tensor*> tensors;
};

Result<SafetensorsEntry> Describe(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided) {
    return InvalidArgument("tensor '{}' is undefined or sparse and cannot be saved", name);
  }
  const std::optional<SafetensorsDtype> dtype = ToSafetensors(tensor.scalar_type());
  if (!dtype) {
    return InvalidArgument("tensor '{}' has dtype {}, which safetensors does not have",
                           name,
                           c10::toString(tensor.scalar_type()));
  }
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = *dtype;
  entry.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  if (*dtype == SafetensorsDtype::kF4 && !entry.shape.empty()) {
    entry.shape.back() *= 2;
  }
  return entry;
}

Result<Plan> MakePlan(const NamedTensors& tensors, const SafetensorsMetadata& metadata) {
  Plan plan;
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    LR_ASSIGN(SafetensorsEntry entry, Describe(name, tensor));
    entries.push_back(std::move(entry));
    plan.tensors.emplace(name, &tensor);
  }
  LR_ASSIGN(plan.header, LayOutSafetensors(std::move(entries), metadata));
  LR_ASSIGN(plan.encoded, EncodeSafetensorsHeader(plan.header));
  return plan;
}

Status WriteTensors(DurableFile& file, const Plan& plan) {
  LR_TRY(file.Write(plan.encoded));
  for (const SafetensorsEntry& entry : plan.header.entries) {
    const at::Tensor host = plan.tensors.at(entry.name)->detach().cpu().contiguous();
    LR_TRY(file.Write({static_cast<const char*>(host.const_data_ptr()), entry.bytes()}));
  }
  return {};
}

}  // namespace

Result<WrittenFile> WriteSafetensors(const std::filesystem::path& path,
                                     const NamedTensors& tensors,
                                     const SafetensorsMetadata& metadata) {
  LR_ASSIGN(const Plan plan, MakePlan(tensors, metadata).WithContext("'{}'", path.string()));
  LR_ASSIGN(DurableFile file, DurableFile::Create(path));
  LR_TRY(WriteTensors(file, plan));
  return file.Finish();
}

Result<uint64_t> SafetensorsFileSize(const NamedTensors& tensors,
                                     const SafetensorsMetadata& metadata) {
  LR_ASSIGN(const Plan plan, MakePlan(tensors, metadata));
  const uint64_t data = plan.header.entries.empty() ? 0 : plan.header.entries.back().end;
  return plan.encoded.size() + data;
}

}  // namespace lr::worker
