/// Building the engine and its forward side; the backward side is sharded_backward.cc.
#include "worker/parallel/sharded_engine.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "common/base/check.h"

namespace lr::worker {

namespace {

namespace autograd = torch::autograd;

/// A fingerprint of what must be the same on all ranks, in unit order.
std::vector<int64_t> DescribeTree(const UnitSelection& selection) {
  std::vector<int64_t> description;
  for (const UnitSelection::Unit& unit : selection.units) {
    std::string text = unit.name;
    for (const UnitParameter& one : unit.parameters) {
      text += fmt::format("|{}:{}:{}:{}",
                          one.names.front(),
                          fmt::join(one.parameter.sizes(), "x"),
                          c10::toString(one.parameter.scalar_type()),
                          one.parameter.requires_grad());
    }
    description.push_back(static_cast<int64_t>(std::hash<std::string>{}(text) >> 1U));
  }
  return description;
}

void CastFloating(const std::vector<at::Tensor*>& tensors, at::ScalarType dtype) {
  for (at::Tensor* tensor : tensors) {
    if (tensor->is_floating_point()) {
      *tensor = tensor->to(dtype);
    }
  }
}

}  // namespace

at::Tensor GatherParameter(const ShardGroups& groups, const ShardedParameter& parameter) {
  const at::Tensor shard = parameter.shard.detach();
  if (!parameter.is_sharded) {
    return shard;
  }
  const int64_t rows = parameter.full_shape[0];
  int64_t row_numel = 1;
  for (size_t i = 1; i < parameter.full_shape.size(); ++i) {
    row_numel *= parameter.full_shape[i];
  }
  const ShardLayout layout(rows, row_numel, groups.shard_size);
  const int64_t part = layout.padded_numel() * static_cast<int64_t>(shard.element_size());
  at::Tensor buffer = at::zeros({groups.shard_size * part}, shard.options().dtype(at::kByte));
  if (shard.numel() > 0) {
    const at::Tensor bytes = shard.contiguous().view({-1}).view(at::kByte);
    buffer.narrow(0, groups.shard_rank * part, bytes.numel()).copy_(bytes);
  }
  StartGather(groups, "'" + parameter.names.front() + "'", buffer).Wait();
  return buffer.view(shard.scalar_type()).narrow(0, 0, layout.numel()).view(parameter.full_shape);
}

/// Fires once per backward, after all uses of its parameter have contributed.
class ShardedEngine::AccumulateHook final : public autograd::FunctionPostHook {
 public:
  AccumulateHook(ShardedEngine& engine, size_t unit, size_t slot)
      : engine_(engine), unit_(unit), slot_(slot) {}

  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list& /*inputs*/) override {
    engine_.OnGradient(unit_, slot_);
    return outputs;
  }

 private:
  ShardedEngine& engine_;
  size_t unit_;
  size_t slot_;
};

/// Passes a call's inputs through and, in backward, tells that the whole call has been passed.
class ShardedEngine::InputGate final : public autograd::Function<InputGate> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context,
                                         ShardedEngine* engine,
                                         int64_t unit,
                                         at::TensorList inputs) {
    context->set_materialize_grads(false);
    context->saved_data["engine"] = reinterpret_cast<int64_t>(engine);
    context->saved_data["unit"] = unit;
    return inputs.vec();
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    auto* engine = reinterpret_cast<ShardedEngine*>(context->saved_data["engine"].toInt());
    engine->OnGate(static_cast<size_t>(context->saved_data["unit"].toInt()));
    autograd::variable_list all = {at::Tensor(), at::Tensor()};
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  }
};

ShardedEngine::ShardedEngine(ShardGroups groups, const ShardedOptions& options)
    : groups_(std::move(groups)), options_(options) {}

ShardedEngine::~ShardedEngine() {
  for (UnitModule* module : modules_) {
    if (module != nullptr) {
      module->Observe(nullptr);
    }
  }
}

Result<std::unique_ptr<ShardedEngine>> ShardedEngine::Create(torch::nn::Module& root,
                                                             ShardGroups groups,
                                                             const ShardedOptions& options) {
  std::unique_ptr<ShardedEngine> engine(new ShardedEngine(std::move(groups), options));
  LR_TRY(engine->Build(root));
  return engine;
}

Status ShardedEngine::Build(torch::nn::Module& root) {
  LR_ASSIGN(UnitSelection selection, SelectUnits(root, options_.wrap));
  LR_TRY(CheckEqualTrees(selection));
  const at::NoGradGuard no_grad;
  for (auto& buffer : root.named_buffers()) {
    BroadcastOverWorld(groups_, "'" + buffer.key() + "'", buffer.value());
  }
  ignored_ = std::move(selection.ignored);
  warnings_ = std::move(selection.warnings);
  for (const UnitParameter& one : ignored_) {
    BroadcastParameter(one);
  }
  for (UnitSelection::Unit& unit : selection.units) {
    for (const UnitParameter& one : unit.parameters) {
      BroadcastParameter(one);
    }
    const bool is_root = unit.name.empty();
    if (!is_root) {
      unit_of_[unit.module] = units_.size();
      unit.module->Observe(this);
    }
    modules_.push_back(is_root ? nullptr : unit.module);
    units_.push_back(std::make_unique<ShardedUnit>(
        unit.name, std::move(unit.parameters), groups_, options_.precision, options_.cpu_offload));
  }
  HookAccumulators();
  return {};
}

void ShardedEngine::BroadcastParameter(const UnitParameter& one) const {
  at::Tensor value = one.parameter.detach();
  BroadcastOverWorld(groups_, "'" + one.names.front() + "'", value);
}

/// Collective: by element, how many ranks have another value than rank 0.
at::Tensor ShardedEngine::DifferingRanks(const at::Tensor& mine) const {
  at::Tensor theirs = mine.clone();
  BroadcastOverWorld(groups_, "the tree", theirs);
  at::Tensor differs = (mine != theirs).to(at::kInt);
  SumOverWorld(groups_, "differences of the trees", differs);
  return differs;
}

Status ShardedEngine::CheckEqualTrees(const UnitSelection& selection) const {
  if (!groups_.world) {
    return {};
  }
  const std::vector<int64_t> mine = DescribeTree(selection);
  // Their number first: lists of different lengths cannot be exchanged.
  const at::Tensor count = at::tensor({static_cast<int64_t>(mine.size())}, at::kLong);
  if (DifferingRanks(count).item<int>() > 0) {
    return FailedPrecondition(
        "the ranks divide the model into different numbers of units ({} on this rank): all ranks "
        "must build the same model",
        mine.size());
  }
  const at::Tensor differing_ranks = DifferingRanks(at::tensor(mine, at::kLong));
  for (size_t i = 0; i < mine.size(); ++i) {
    if (differing_ranks[static_cast<int64_t>(i)].item<int>() > 0) {
      return FailedPrecondition(
          "unit '{}' differs between ranks: all ranks must build the same model (names, shapes, "
          "dtypes, what is trained)",
          selection.units[i].name);
    }
  }
  return {};
}

void ShardedEngine::HookAccumulators() {
  accumulator_of_.resize(units_.size());
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const std::vector<ShardSlot>& slots = units_[unit]->slots();
    accumulator_of_[unit].assign(slots.size(), nullptr);
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].trainable) {
        auto node = autograd::impl::grad_accumulator(slots[slot].leaf);
        node->add_post_hook(std::make_unique<AccumulateHook>(*this, unit, slot));
        accumulator_of_[unit][slot] = node.get();
        accumulators_.push_back(std::move(node));
      }
    }
  }
}

std::vector<ShardedParameter> ShardedEngine::parameters() const {
  std::vector<ShardedParameter> all;
  for (const auto& unit : units_) {
    for (const ShardSlot& slot : unit->slots()) {
      all.push_back({slot.names, slot.shard, slot.shape, true, slot.leaf});
    }
  }
  for (const UnitParameter& one : ignored_) {
    all.push_back({one.names, one.parameter, one.parameter.sizes().vec(), false, one.parameter});
  }
  return all;
}

std::vector<std::string> ShardedEngine::unit_names() const {
  std::vector<std::string> names;
  for (const auto& unit : units_) {
    names.push_back(unit->name());
  }
  return names;
}

int64_t ShardedEngine::resident_elements() const {
  int64_t elements = 0;
  for (const auto& unit : units_) {
    for (const ShardSlot& slot : unit->slots()) {
      elements += slot.gathered.storage().nbytes() > 0 ? slot.layout.numel() : 0;
    }
  }
  return elements;
}

// ---- forward

void ShardedEngine::BeginForward(const std::vector<at::Tensor*>& inputs, bool sync) {
  ReleaseAll();
  calls_.clear();
  last_order_ = std::exchange(order_, {});
  sync_ = sync;
  in_backward_ = false;
  expects_backward_ = at::GradMode::is_enabled();
  Enter(root(), inputs);
}

void ShardedEngine::EndForward(const std::vector<at::Tensor*>& outputs, bool /*sync*/) {
  if (options_.precision.output_dtype) {
    CastFloating(outputs, *options_.precision.output_dtype);
  }
  if (!at::GradMode::is_enabled()) {
    ReleaseAll();
  }
}

void ShardedEngine::BeforeForward(const UnitModule& unit, const std::vector<at::Tensor*>& inputs) {
  Enter(unit_of_.at(&unit), inputs);
}

void ShardedEngine::Enter(size_t unit, const std::vector<at::Tensor*>& inputs) {
  units_[unit]->FinishGather();
  order_.push_back(unit);
  PrefetchAfter(unit);
  if (options_.precision.param_dtype && options_.precision.cast_forward_inputs) {
    CastFloating(inputs, *options_.precision.param_dtype);
  }
  if (at::GradMode::is_enabled() && unit != root()) {
    calls_.emplace_back();
    calls_.back().unit = unit;
    calls_.back().has_gate = units_[unit]->has_frozen_slots() && GateInputs(unit, inputs);
  }
}

bool ShardedEngine::GateInputs(size_t unit, const std::vector<at::Tensor*>& inputs) {
  std::vector<at::Tensor> gated;
  for (const at::Tensor* input : inputs) {
    if (input->requires_grad()) {
      gated.push_back(*input);
    }
  }
  if (gated.empty()) {
    return false;
  }
  const autograd::variable_list passed =
      InputGate::apply(this, static_cast<int64_t>(unit), at::TensorList(gated));
  auto next = passed.begin();
  for (at::Tensor* input : inputs) {
    if (input->requires_grad()) {
      *input = *next++;
    }
  }
  return true;
}

/// On a CPU nothing runs ahead of compute by itself: the next gather is started by the order seen
/// in the forward before.
void ShardedEngine::PrefetchAfter(size_t unit) {
  const size_t at = order_.size() - 1;
  if (at + 1 < last_order_.size() && last_order_[at] == unit) {
    units_[last_order_[at + 1]]->StartGather();
  }
}

void ShardedEngine::AfterForward(const UnitModule& unit, const std::vector<at::Tensor*>& outputs) {
  const size_t index = unit_of_.at(&unit);
  if (at::GradMode::is_enabled()) {
    // Of nested calls of one unit the innermost ends first.
    size_t position = calls_.size() - 1;
    while (calls_[position].unit != index || calls_[position].is_over) {
      LR_CHECK(
          position > 0, "unit '{}' ends a forward that it did not begin", units_[index]->name());
      --position;
    }
    calls_[position].is_over = true;
    for (const at::Tensor* output : outputs) {
      if (output->requires_grad()) {
        output->register_hook(
            [this, position](const at::Tensor& /*gradient*/) { PreBackward(position); });
        calls_[position].outputs.push_back(output->grad_fn());
      }
    }
  }
  if (options_.reshard_after_forward) {
    units_[index]->Release();
  }
  if (options_.precision.output_dtype) {
    CastFloating(outputs, *options_.precision.output_dtype);
  }
}

void ShardedEngine::ReleaseAll() {
  for (const auto& unit : units_) {
    unit->Release();
  }
}

}  // namespace lr::worker
