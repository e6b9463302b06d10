// (pure) See the header.
#include "tools/lr_convert_dcp/merge_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/text.h"

namespace lr {
namespace {

using worker::DcpDtype;
using worker::DcpMetadata;
using worker::DcpPath;
using worker::SafetensorsDtype;
using worker::SafetensorsEntry;

/// The types that the shards' reader reads (those with a storage class) and the format names.
constexpr std::array<std::pair<std::string_view, SafetensorsDtype>, 11> kTypes = {{
    {"torch.float32", SafetensorsDtype::kF32},
    {"torch.float64", SafetensorsDtype::kF64},
    {"torch.float16", SafetensorsDtype::kF16},
    {"torch.bfloat16", SafetensorsDtype::kBF16},
    {"torch.int64", SafetensorsDtype::kI64},
    {"torch.int32", SafetensorsDtype::kI32},
    {"torch.int16", SafetensorsDtype::kI16},
    {"torch.int8", SafetensorsDtype::kI8},
    {"torch.uint8", SafetensorsDtype::kU8},
    {"torch.bool", SafetensorsDtype::kBool},
    {"torch.complex64", SafetensorsDtype::kC64},
}};

Result<SafetensorsDtype> TypeOf(const std::string& key, const DcpDtype& dtype) {
  const auto* found = std::find_if(
      kTypes.begin(), kTypes.end(), [&](const auto& pair) { return pair.first == dtype.name; });
  if (found == kTypes.end()) {
    return Unimplemented("'{}' has type {}, which cannot be converted", key, dtype.name);
  }
  return found->second;
}

std::string Part(const DcpPath::value_type& part) {
  const auto* text = std::get_if<std::string>(&part);
  return text != nullptr ? *text : fmt::format("{}", std::get<int64_t>(part));
}

/// The key's place in the nested state; without recorded paths the prefix `model.` is taken for
/// one.
std::vector<std::string> PlaceOf(const DcpMetadata& metadata, const std::string& key) {
  constexpr std::string_view kPrefix = "model.";
  const auto path = metadata.paths.find(key);
  std::vector<std::string> parts;
  if (path != metadata.paths.end()) {
    for (const auto& part : path->second) {
      parts.push_back(Part(part));
    }
  } else if (key.starts_with(kPrefix)) {
    parts = {"model", key.substr(kPrefix.size())};
  } else {
    parts = {key};
  }
  return parts;
}

/// Name in the state -> key.
Result<std::map<std::string, std::string>> Names(const DcpMetadata& metadata) {
  std::map<std::string, std::vector<std::string>> places;
  std::set<std::string> tops;
  bool is_nested = true;
  for (const auto& [key, tensor] : metadata.tensors) {
    std::vector<std::string> place = PlaceOf(metadata, key);
    is_nested = is_nested && place.size() > 1;
    tops.insert(place.empty() ? "" : place[0]);
    places[key] = std::move(place);
  }
  std::map<std::string, std::string> names;
  for (auto& [key, place] : places) {
    if (is_nested && tops.size() == 1) {
      place.erase(place.begin());
    }
    const auto [it, is_new] = names.emplace(Join(place, "."), key);
    if (!is_new) {
      return InvalidArgument("'{}' and '{}' both mean the tensor '{}'", it->second, key, it->first);
    }
  }
  return names;
}

/// An adapter's tensors under the names of its file.
Status KeepAdapter(std::map<std::string, std::string>& names, AdapterBias bias, MergePlan& plan) {
  std::vector<std::string> all;
  for (const auto& [name, key] : names) {
    all.push_back(name);
  }
  plan.is_adapter = HasAdapter(all);
  if (!plan.is_adapter) {
    return {};
  }
  LR_ASSIGN(AdapterNames adapter, ChooseAdapterNames(all, bias));
  std::map<std::string, std::string> renamed;
  for (const auto& [name, in_file] : adapter.kept) {
    if (!renamed.emplace(in_file, names.at(name)).second) {
      return InvalidArgument("two tensors of the shards mean '{}' of the adapter", in_file);
    }
  }
  names = std::move(renamed);
  plan.left_out = std::move(adapter.left_out);
  return {};
}

}  // namespace

uint64_t MergePlan::file_bytes() const {
  return encoded.size() + (header.entries.empty() ? 0 : header.entries.back().end);
}

uint64_t MergePlan::largest_tensor() const {
  uint64_t largest = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    largest = std::max(largest, entry.bytes());
  }
  return largest;
}

Result<MergePlan> PlanMerge(const DcpMetadata& metadata, AdapterBias bias) {
  if (metadata.tensors.empty()) {
    return InvalidArgument("the shards hold no tensors");
  }
  MergePlan plan;
  LR_ASSIGN(plan.keys, Names(metadata));
  LR_TRY(KeepAdapter(plan.keys, bias, plan));
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, key] : plan.keys) {
    const worker::DcpTensor& tensor = metadata.tensors.at(key);
    SafetensorsEntry entry;
    entry.name = name;
    LR_ASSIGN(entry.dtype, TypeOf(key, *tensor.dtype));
    entry.shape.assign(tensor.size.begin(), tensor.size.end());
    entries.push_back(std::move(entry));
  }
  LR_ASSIGN(plan.header, worker::LayOutSafetensors(std::move(entries), {{"format", "pt"}}));
  LR_ASSIGN(plan.encoded, worker::EncodeSafetensorsHeader(plan.header));
  for (const auto& [key, location] : metadata.values) {
    plan.values.push_back(key);
  }
  return plan;
}

}  // namespace lr
