#include "worker/checkpoint/model_file.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <torch/nn/module.h>

#include "common/base/text.h"

namespace lr::worker {
namespace {

constexpr char kFormatKey[] = "format";
constexpr char kFormatValue[] = "pt";
constexpr size_t kNamesShown = 8;

void Collect(const torch::nn::Module& module, const std::string& prefix, NamedTensors& state) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    if (parameter.value().defined()) {
      state.emplace_back(prefix + parameter.key(), parameter.value());
    }
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    if (buffer.value().defined()) {
      state.emplace_back(prefix + buffer.key(), buffer.value());
    }
  }
  for (const auto& child : module.named_children()) {
    Collect(*child.value(), prefix + child.key() + ".", state);
  }
}

/// Equal for tensors that are the same memory seen the same way.
using Identity = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, int>;

Identity IdentityOf(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(),
          tensor.sizes().vec(),
          tensor.strides().vec(),
          static_cast<int>(tensor.scalar_type())};
}

/// The kept name (alphabetically first) of each distinct tensor that has memory.
std::map<Identity, std::string> KeptNames(const NamedTensors& state) {
  std::map<Identity, std::string> kept;
  for (const auto& [name, tensor] : state) {
    if (tensor.numel() == 0) {
      continue;
    }
    const auto [it, inserted] = kept.emplace(IdentityOf(tensor), name);
    if (!inserted) {
      it->second = std::min(it->second, name);
    }
  }
  return kept;
}

std::string SomeOf(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  return Join(shown, ", ") +
         (names.size() > kNamesShown ? fmt::format(", … ({} in all)", names.size()) : "");
}

/// For each tensor of the module the name in the file that fills it; nothing is read or modified.
class LoadPlan {
 public:
  LoadPlan(const SafetensorsFile& file, const NamedTensors& state) : file_(file) {
    std::map<Identity, std::string> in_file;  // names of the module that the file has, by memory
    for (const auto& [name, tensor] : state) {
      if (file.Find(name) != nullptr && tensor.numel() > 0) {
        in_file.emplace(IdentityOf(tensor), name);
      }
    }
    for (const auto& [name, tensor] : state) {
      Add(name, tensor, in_file);
    }
    for (const SafetensorsEntry& entry : file.entries()) {
      if (!used_.contains(entry.name)) {
        report_.unexpected.push_back(entry.name);
      }
    }
  }

  const ModelLoadReport& report() const { return report_; }

  const std::vector<std::pair<at::Tensor, std::string>>& copies() const { return copies_; }

  Status Check(MissingKeys missing) const {
    if (!mismatches_.empty()) {
      return InvalidArgument(
          "'{}' does not fit the model: {}", file_.path().string(), SomeOf(mismatches_));
    }
    if (missing == MissingKeys::kError && !report_.missing.empty()) {
      return NotFound("'{}' lacks {} of the model's tensors: {}",
                      file_.path().string(),
                      report_.missing.size(),
                      SomeOf(report_.missing));
    }
    return {};
  }

 private:
  void Add(const std::string& name,
           const at::Tensor& tensor,
           const std::map<Identity, std::string>& in_file) {
    std::string source = name;
    if (file_.Find(source) == nullptr) {
      const auto alias = file_.metadata().find(name);
      const auto tied = in_file.find(IdentityOf(tensor));
      if (alias != file_.metadata().end() && file_.Find(alias->second) != nullptr) {
        source = alias->second;
      } else if (tied != in_file.end()) {
        source = tied->second;
      } else {
        report_.missing.push_back(name);
        return;
      }
    }
    const SafetensorsEntry& entry = *file_.Find(source);
    used_.insert(source);
    if (!std::equal(entry.shape.begin(),
                    entry.shape.end(),
                    tensor.sizes().begin(),
                    tensor.sizes().end(),
                    [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); })) {
      mismatches_.push_back(fmt::format("{} has shape [{}] in the file and [{}] in the model",
                                        name,
                                        fmt::join(entry.shape, ", "),
                                        fmt::join(tensor.sizes(), ", ")));
      return;
    }
    copies_.emplace_back(tensor, source);
  }

  const SafetensorsFile& file_;
  ModelLoadReport report_;
  std::set<std::string> used_;
  std::vector<std::string> mismatches_;
  std::vector<std::pair<at::Tensor, std::string>> copies_;
};

}  // namespace

NamedTensors StateDict(const torch::nn::Module& module) {
  NamedTensors state;
  Collect(module, "", state);
  return state;
}

TiedState ResolveTies(const NamedTensors& state) {
  const std::map<Identity, std::string> kept = KeptNames(state);
  TiedState resolved;
  for (const auto& [name, tensor] : state) {
    const auto it = tensor.numel() == 0 ? kept.end() : kept.find(IdentityOf(tensor));
    if (it == kept.end() || it->second == name) {
      resolved.kept.emplace_back(name, tensor);
    } else {
      resolved.aliases.emplace(name, it->second);
    }
  }
  return resolved;
}

Result<WrittenFile> SaveModel(const TiedState& state, const std::filesystem::path& path) {
  SafetensorsMetadata metadata = state.aliases;
  metadata[kFormatKey] = kFormatValue;
  return WriteSafetensors(path, state.kept, metadata);
}

Result<WrittenFile> SaveModel(const NamedTensors& state, const std::filesystem::path& path) {
  return SaveModel(ResolveTies(state), path);
}

Result<ModelLoadReport> LoadModel(const std::filesystem::path& path,
                                  torch::nn::Module& module,
                                  MissingKeys missing) {
  LR_ASSIGN(const SafetensorsFile file, SafetensorsFile::Open(path));
  const LoadPlan plan(file, StateDict(module));
  LR_TRY(plan.Check(missing));
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, source] : plan.copies()) {
    LR_ASSIGN(const at::Tensor loaded, file.Load(source));
    tensor.copy_(loaded);
  }
  return plan.report();
}

}  // namespace lr::worker
