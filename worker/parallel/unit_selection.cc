/// One walk over the module tree.
#include "worker/parallel/unit_selection.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "common/base/text.h"

namespace lr::worker {

namespace {

std::string Joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

std::string ShownName(const std::string& unit) {
  return unit.empty() ? "the root" : "'" + unit + "'";
}

int64_t CountElements(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const at::Tensor& parameter : module.parameters()) {
    count += parameter.numel();
  }
  return count;
}

class Selector {
 public:
  explicit Selector(const WrapRequest& request) : request_(request) {}

  Result<UnitSelection> Run(torch::nn::Module& root) {
    LR_TRY(CheckRequest());
    const size_t unit = 0;
    pending_.push_back({"", dynamic_cast<UnitModule*>(&root), {}});
    LR_TRY(Visit(root, "", unit));
    finished_.push_back(std::move(pending_[unit]));
    LR_TRY(CheckNames());
    if (ignoring_ && !ignored_matched_) {
      result_.warnings.push_back(
          fmt::format("ignored_modules='{}' matches no module (names of adapters begin with "
                      "base_model.model., so that a pattern for the bare policy begins with .*)",
                      *request_.ignored_modules));
    }
    result_.units = std::move(finished_);
    for (UnitSelection::Unit& one : result_.units) {
      LR_TRY(CheckUnit(one));
    }
    return std::move(result_);
  }

 private:
  Status CheckRequest() {
    const bool by_name = !request_.class_names.empty();
    if (by_name && request_.min_num_params) {
      return InvalidArgument(
          "fsdp.wrap_modules and fsdp.min_num_params exclude each other: set one of them");
    }
    if (!by_name && !request_.min_num_params) {
      return InvalidArgument(
          "nothing says which blocks to shard: the model declares no wrap_modules and has no block "
          "that derives from UnitModule; set --accelerator.fsdp.wrap_modules or "
          "--accelerator.fsdp.min_num_params");
    }
    if (request_.ignored_modules) {
      try {
        ignoring_.emplace(*request_.ignored_modules);
      } catch (const std::regex_error& error) {
        return InvalidArgument("fsdp.ignored_modules='{}' is no regular expression: {}",
                               *request_.ignored_modules,
                               error.what());
      }
    }
    return {};
  }

  bool IsUnit(const torch::nn::Module& module) {
    const std::string name = UnitClassName(module);
    const bool is_named =
        std::ranges::find(request_.class_names, name) != request_.class_names.end();
    if (is_named) {
      matched_.insert(name);
    }
    return is_named ||
           (request_.min_num_params && CountElements(module) > *request_.min_num_params);
  }

  /// `unit`: index in pending_ of the unit that manages this module's own parameters.
  Status Visit(torch::nn::Module& module, const std::string& prefix, size_t unit) {
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      LR_TRY(Add(Joined(prefix, item.key()), item.value(), unit));
    }
    for (const auto& item : module.named_children()) {
      torch::nn::Module& child = *item.value();
      const std::string name = Joined(prefix, item.key());
      seen_classes_.insert(UnitClassName(child));
      if (ignoring_ && std::regex_match(name, *ignoring_)) {
        ignored_matched_ = true;
        Ignore(child, name);
        continue;
      }
      auto* capable = dynamic_cast<UnitModule*>(&child);
      const bool wanted = IsUnit(child);
      if (!wanted || capable == nullptr) {
        LR_TRY(Refuse(child, name, wanted));
        LR_TRY(Visit(child, name, unit));
        continue;
      }
      const size_t own = pending_.size();
      pending_.push_back({name, capable, {}});
      LR_TRY(Visit(child, name, own));
      finished_.push_back(std::move(pending_[own]));
    }
    return {};
  }

  /// A class that the user named but that cannot be intercepted; by size, its parameters fall to
  /// the block around it.
  Status Refuse(const torch::nn::Module& child, const std::string& name, bool wanted) const {
    const bool by_name = !request_.class_names.empty();
    return wanted && by_name ? InvalidArgument(
                                   "'{}' ({}) cannot be a sharding unit: it does not derive from "
                                   "UnitModule",
                                   name,
                                   UnitClassName(child))
                             : Status();
  }

  Status Add(const std::string& name, const at::Tensor& parameter, size_t unit) {
    const auto known = owners_.find(parameter.unsafeGetTensorImpl());
    if (known == owners_.end()) {
      owners_[parameter.unsafeGetTensorImpl()] = {
          unit, pending_[unit].parameters.size(), name, pending_[unit].name};
      pending_[unit].parameters.push_back({{name}, parameter});
      return {};
    }
    const Place& place = known->second;
    if (place.unit != unit) {
      return FailedPrecondition(
          "'{}' (unit {}) and '{}' (unit {}) are one tensor: tied weights must lie in one unit; "
          "wrap the repeated block class, which leaves both in the root",
          place.name,
          ShownName(place.unit_name),
          name,
          ShownName(pending_[unit].name));
    }
    pending_[unit].parameters[place.index].names.push_back(name);
    return {};
  }

  void Ignore(torch::nn::Module& module, const std::string& prefix) {
    for (const auto& item : module.named_parameters()) {
      result_.ignored.push_back({{Joined(prefix, item.key())}, item.value()});
    }
  }

  Status CheckNames() const {
    std::vector<std::string> missing;
    for (const std::string& name : request_.class_names) {
      if (matched_.count(name) == 0) {
        missing.push_back(name);
      }
    }
    const bool is_enough = request_.names_are_declared && !matched_.empty();
    if (missing.empty() || is_enough) {
      return {};
    }
    return InvalidArgument("fsdp.wrap_modules names {}, and the model has no such block; it has {}",
                           Join(missing, ", "),
                           Join({seen_classes_.begin(), seen_classes_.end()}, ", "));
  }

  static Status CheckUnit(const UnitSelection::Unit& unit) {
    const UnitParameter* first_trainable = nullptr;
    for (const UnitParameter& one : unit.parameters) {
      const at::Tensor& parameter = one.parameter;
      if (parameter.dim() == 0 || parameter.numel() == 0 || !parameter.is_contiguous()) {
        return FailedPrecondition(
            "parameter '{}' of shape {} cannot be sharded by rows: make it {}",
            one.names.front(),
            fmt::format("[{}]", fmt::join(parameter.sizes(), ", ")),
            parameter.dim() == 0 ? "one-dimensional of size 1" : "contiguous and not empty");
      }
      if (!parameter.requires_grad()) {
        continue;
      }
      first_trainable = first_trainable == nullptr ? &one : first_trainable;
      if (parameter.scalar_type() != first_trainable->parameter.scalar_type()) {
        return FailedPrecondition(
            "unit {} mixes trainable dtypes: '{}' is {}, '{}' is {}; set "
            "--accelerator.mixed_precision, which trains all of them in float32",
            ShownName(unit.name),
            first_trainable->names.front(),
            c10::toString(first_trainable->parameter.scalar_type()),
            one.names.front(),
            c10::toString(parameter.scalar_type()));
      }
    }
    return {};
  }

  struct Place {
    size_t unit = 0;
    size_t index = 0;
    std::string name;
    std::string unit_name;
  };

  const WrapRequest& request_;
  std::optional<std::regex> ignoring_;
  bool ignored_matched_ = false;
  std::vector<UnitSelection::Unit> pending_;
  std::vector<UnitSelection::Unit> finished_;
  std::map<const at::TensorImpl*, Place> owners_;
  std::set<std::string> matched_;
  std::set<std::string> seen_classes_;
  UnitSelection result_;
};

}  // namespace

std::vector<std::string> UnitClassesIn(const torch::nn::Module& root) {
  std::set<std::string> names;
  for (const auto& module : root.modules(/*include_self=*/false)) {
    if (dynamic_cast<const UnitModule*>(module.get()) != nullptr) {
      names.insert(UnitClassName(*module));
    }
  }
  return {names.begin(), names.end()};
}

std::string UnitClassName(const torch::nn::Module& module) {
  std::string name = module.name();
  if (const size_t colon = name.rfind(':'); colon != std::string::npos) {
    name.erase(0, colon + 1);
  }
  if (name.ends_with("Impl")) {
    name.erase(name.size() - 4);
  }
  return name;
}

Result<UnitSelection> SelectUnits(torch::nn::Module& root, const WrapRequest& request) {
  return Selector(request).Run(root);
}

}  // namespace lr::worker
