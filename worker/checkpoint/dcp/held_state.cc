#include "worker/checkpoint/dcp/held_state.h"

#include <map>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "worker/checkpoint/model_file.h"
#include "worker/parallel/sharded_engine.h"

namespace lr::worker {

std::vector<ShardedParameter> HeldState(const torch::nn::Module& module,
                                        const std::vector<ShardedParameter>& sharded) {
  std::map<std::string, size_t> sharded_of;
  for (size_t i = 0; i < sharded.size(); ++i) {
    for (const std::string& name : sharded[i].names) {
      sharded_of[name] = i;
    }
  }
  std::vector<ShardedParameter> held;
  std::map<const at::TensorImpl*, size_t> seen;
  for (const auto& [name, tensor] : StateDict(module)) {
    const auto found = sharded_of.find(name);
    const at::Tensor& mine = found == sharded_of.end() ? tensor : sharded[found->second].shard;
    const auto [it, is_new] = seen.emplace(mine.unsafeGetTensorImpl(), held.size());
    if (found != sharded_of.end()) {
      if (is_new) {
        held.push_back(sharded[found->second]);
      }
    } else if (is_new) {
      held.push_back({{name}, tensor, tensor.sizes().vec(), false});
    } else {
      held[it->second].names.push_back(name);
    }
  }
  return held;
}

NamedTensors GatherState(const std::vector<ShardedParameter>& held,
                         const ShardGroups& groups,
                         bool keep) {
  const at::NoGradGuard no_grad;
  NamedTensors whole;
  for (const ShardedParameter& parameter : held) {
    const at::Tensor gathered = GatherParameter(groups, parameter);
    if (!keep) {
      continue;
    }
    // A copy: what was gathered may be a view of a padded buffer, or the live tensor.
    at::Tensor copy = at::empty(gathered.sizes(), gathered.options().device(at::kCPU));
    copy.copy_(gathered);
    for (const std::string& name : parameter.names) {
      whole.emplace_back(name, copy);
    }
  }
  return whole;
}

}  // namespace lr::worker
