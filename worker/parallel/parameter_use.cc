/// Graph walk and agreement.
#include "worker/parallel/parameter_use.h"

#include <algorithm>

#include <ATen/ops/empty.h>

namespace lr::worker {

namespace {

/// Calls `visit` with every list, always in the same order.
template <typename Use, typename Visit>
void ForEachList(Use& use, const Visit& visit) {
  for (auto& unit : use.slots) {
    visit(unit);
  }
  visit(use.ignored);
  visit(use.calls);
}

}  // namespace

std::unordered_set<const torch::autograd::Node*> ReachableNodes(const at::Tensor& loss) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open;
  if (const auto& node = loss.grad_fn()) {
    seen.insert(node.get());
    open.push_back(node.get());
  }
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function && seen.insert(edge.function.get()).second) {
        open.push_back(edge.function.get());
      }
    }
  }
  return seen;
}

void ParameterUse::SumOver(const ShardGroups& groups) {
  if (!groups.world) {
    return;
  }
  std::vector<int32_t> flat;
  ForEachList(*this, [&](const auto& list) { flat.insert(flat.end(), list.begin(), list.end()); });
  at::Tensor counts = at::empty({static_cast<int64_t>(flat.size())}, at::kInt);
  std::copy(flat.begin(), flat.end(), counts.data_ptr<int32_t>());
  SumOverWorld(groups, "what the ranks use", counts);
  const int32_t* next = counts.const_data_ptr<int32_t>();
  ForEachList(*this, [&](auto& list) {
    std::copy_n(next, list.size(), list.begin());
    next += list.size();
  });
}

bool ParameterUse::IsUniform(int world_size) const {
  bool is_uniform = true;
  ForEachList(*this, [&](const auto& list) {
    is_uniform = is_uniform && std::ranges::all_of(list, [&](int32_t count) {
                   return count == 0 || count == world_size;
                 });
  });
  return is_uniform;
}

}  // namespace lr::worker
