// (pure) What the known globals of a torch.save pickle mean, and the shapes in which it may arrive.
#include "worker/nn/tensor_pickle.h"

#include "worker/nn/pickle_machine.h"

namespace lr::worker {

namespace internal {

/// ("storage", <class>, key, location, numel[, view]) -> the storage of that key.
Status PickleMachine::PersistentLoad() {
  LR_ASSIGN(const uint32_t index, Pop());
  const PickleValue& id = values_[index];
  const bool is_tuple =
      id.kind == PickleKind::kTuple && (id.items.size() == 5 || id.items.size() == 6);
  const auto item = [&](size_t i) -> const PickleValue& { return values_[id.items[i]]; };
  if (!is_tuple || item(0).text != "storage" || item(1).kind != PickleKind::kGlobal ||
      item(2).kind != PickleKind::kText || item(4).kind != PickleKind::kInteger) {
    return Fail("a persistent object that is not a storage");
  }
  if (id.items.size() == 6 && item(5).kind != PickleKind::kNone) {
    return Fail("a storage that is a view of another one, as old versions of torch wrote");
  }
  const std::string prefix = "torch.";
  const std::string& type = item(1).text;
  PickledStorage storage{
      item(2).text, type.starts_with(prefix) ? type.substr(prefix.size()) : type, item(4).integer};
  const auto [known, is_new] = storage_of_key_.try_emplace(storage.key, storages_.size());
  if (is_new) {
    storages_.push_back(std::move(storage));
  } else if (storages_[known->second].type != storage.type ||
             storages_[known->second].numel != storage.numel) {
    return Fail(fmt::format("storage '{}' described in two ways", storage.key));
  }
  Push({PickleKind::kStorage, static_cast<int64_t>(known->second), {}, {}});
  return {};
}

Status PickleMachine::Reduce() {
  LR_ASSIGN(const uint32_t arguments_index, Pop());
  LR_ASSIGN(const uint32_t function_index, Pop());
  const std::string function = values_[function_index].text;
  const std::vector<uint32_t> arguments = values_[arguments_index].items;
  if (values_[function_index].kind != PickleKind::kGlobal ||
      values_[arguments_index].kind != PickleKind::kTuple) {
    return Fail("a call of something that is not a name");
  }
  if (function == "collections.OrderedDict" && arguments.empty()) {
    Push({PickleKind::kDict, 0, {}, {}});
    return {};
  }
  if (function == "torch._utils._rebuild_tensor_v2") {
    return RebuildTensor(arguments);
  }
  if (function == "torch._utils._rebuild_parameter" && !arguments.empty() &&
      values_[arguments[0]].kind == PickleKind::kTensor) {
    stack_.push_back(arguments[0]);
    return {};
  }
  return Fail(fmt::format("a call of {}, which no file of plain tensors has", function));
}

/// Attributes of a dictionary (a state dict's `_metadata`): of no interest.
Status PickleMachine::Build() {
  LR_TRY(Pop());
  return ::lr::internal::ToStatus(Top(PickleKind::kDict));
}

/// (storage, offset, sizes, strides, requires_grad, hooks).
Status PickleMachine::RebuildTensor(const std::vector<uint32_t>& arguments) {
  if (arguments.size() < 4 || values_[arguments[0]].kind != PickleKind::kStorage ||
      values_[arguments[1]].kind != PickleKind::kInteger) {
    return Fail("a tensor with wrong arguments");
  }
  PickledTensor tensor;
  tensor.storage = static_cast<size_t>(values_[arguments[0]].integer);
  tensor.offset = values_[arguments[1]].integer;
  LR_ASSIGN(tensor.sizes, Integers(arguments[2]));
  LR_ASSIGN(tensor.strides, Integers(arguments[3]));
  if (tensor.sizes.size() != tensor.strides.size() || tensor.sizes.size() > 16) {
    return Fail(fmt::format(
        "a tensor with {} sizes and {} strides", tensor.sizes.size(), tensor.strides.size()));
  }
  Push({PickleKind::kTensor, static_cast<int64_t>(tensors_.size()), {}, {}});
  tensors_.push_back(std::move(tensor));
  return {};
}

Result<std::vector<int64_t>> PickleMachine::Integers(uint32_t tuple) const {
  std::vector<int64_t> integers;
  for (const uint32_t index : values_[tuple].items) {
    if (values_[index].kind != PickleKind::kInteger) {
      return Fail("a shape that is not of integers");
    }
    integers.push_back(values_[index].integer);
  }
  return integers;
}

}  // namespace internal

using internal::PickleKind;
using internal::PickleMachine;
using internal::PickleValue;

Result<PickledTensors> ParseTensorPickle(std::string_view bytes) {
  PickleMachine machine(bytes);
  LR_TRY(machine.Run());
  const PickleValue& root = machine.root();
  if (root.kind != PickleKind::kDict) {
    return InvalidArgument("the file holds no dictionary of tensors");
  }
  PickledTensors result;
  for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& key = machine.value(root.items[i]);
    const PickleValue& value = machine.value(root.items[i + 1]);
    if (key.kind != PickleKind::kText || value.kind != PickleKind::kTensor) {
      return InvalidArgument("entry '{}' of the dictionary is no tensor", key.text);
    }
    result.tensors.push_back(machine.tensors()[static_cast<size_t>(value.integer)]);
    result.tensors.back().name = key.text;
  }
  result.storages = std::move(machine.storages());
  result.consumed = machine.consumed();
  return result;
}

Result<PickledNames> ParseNamesPickle(std::string_view bytes) {
  PickleMachine machine(bytes);
  LR_TRY(machine.Run());
  if (machine.root().kind != PickleKind::kList) {
    return InvalidArgument("the file has no list of its storages");
  }
  PickledNames result;
  for (const uint32_t index : machine.root().items) {
    if (machine.value(index).kind != PickleKind::kText) {
      return InvalidArgument("the file's list of storages has an entry that is no text");
    }
    result.names.push_back(machine.value(index).text);
  }
  result.consumed = machine.consumed();
  return result;
}

Result<size_t> SkipPickle(std::string_view bytes) {
  PickleMachine machine(bytes);
  LR_TRY(machine.Run());
  return machine.consumed();
}

}  // namespace lr::worker
