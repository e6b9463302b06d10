// (pure) See the header.
#include "tools/lr_convert_dcp/adapter_names.h"

#include <algorithm>
#include <optional>
#include <set>

#include "common/base/text.h"

namespace lr {
namespace {

constexpr char kSaved[] = "modules_to_save";
constexpr char kOriginal[] = "original_module";
constexpr char kBase[] = "base_layer";
constexpr char kMagnitude[] = "lora_magnitude_vector";

bool IsLora(const std::string& part) {
  return part.starts_with("lora_");
}

bool IsParameter(const std::string& part) {
  return part == "weight" || part == "bias";
}

/// Where the adapter's name stands: after lora_* or modules_to_save.
std::optional<size_t> AdapterPlace(const std::vector<std::string>& parts) {
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i] == kSaved || (IsLora(parts[i]) && !IsParameter(parts[i + 1]))) {
      return i + 1;
    }
  }
  return std::nullopt;
}

bool Contains(const std::vector<std::string>& parts, const char* part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

/// The file's name of a tensor of the adapter.
std::string WithoutAdapter(std::vector<std::string> parts, size_t place) {
  const bool is_saved = parts[place - 1] == kSaved;
  const bool is_magnitude = parts[place - 1] == kMagnitude;
  if (is_magnitude) {
    parts.resize(place);  // its `.weight` is left out as well
  } else {
    const auto at = parts.begin() + static_cast<std::ptrdiff_t>(place);
    parts.erase(is_saved ? at - 1 : at, at + 1);
  }
  return Join(parts, ".");
}

/// Modules with an adapter, as prefixes of names.
std::set<std::string> TargetedModules(const std::vector<std::string>& names) {
  std::set<std::string> modules;
  for (const std::string& name : names) {
    const size_t at = name.find(".lora_");
    if (at != std::string::npos) {
      modules.insert(name.substr(0, at));
    }
  }
  return modules;
}

bool IsSavedBias(const std::string& name,
                 const std::vector<std::string>& parts,
                 AdapterBias bias,
                 const std::set<std::string>& targeted) {
  if (bias == AdapterBias::kNone || parts.back() != "bias" || Contains(parts, kOriginal)) {
    return false;
  }
  const std::string suffix = std::string(".") + kBase + ".bias";
  return bias == AdapterBias::kAll ||
         (name.ends_with(suffix) && targeted.contains(name.substr(0, name.size() - suffix.size())));
}

}  // namespace

bool HasAdapter(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const std::vector<std::string> parts = Split(name, '.');
    return std::any_of(parts.begin(), parts.end(), IsLora);
  });
}

Result<AdapterNames> ChooseAdapterNames(const std::vector<std::string>& names, AdapterBias bias) {
  AdapterNames chosen;
  std::set<std::string> adapters;
  for (const std::string& name : names) {
    const std::vector<std::string> parts = Split(name, '.');
    if (const std::optional<size_t> place = AdapterPlace(parts)) {
      adapters.insert(parts[*place]);
    }
  }
  if (adapters.size() > 1) {
    return Unimplemented("the shards hold {} adapters ({}), one is expected",
                         adapters.size(),
                         Join({adapters.begin(), adapters.end()}, ", "));
  }
  const std::set<std::string> targeted = TargetedModules(names);
  for (const std::string& name : names) {
    const std::vector<std::string> parts = Split(name, '.');
    const std::optional<size_t> place = AdapterPlace(parts);
    if (place) {
      chosen.kept[name] = WithoutAdapter(parts, *place);
    } else if (adapters.empty() || IsSavedBias(name, parts, bias, targeted)) {
      chosen.kept[name] = name;
    } else {
      chosen.left_out.push_back(name);
    }
  }
  return chosen;
}

}  // namespace lr
