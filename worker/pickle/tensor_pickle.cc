// (pure) What the known globals of a torch.save pickle mean, and the shapes in which it may arrive.
#include "worker/pickle/tensor_pickle.h"

#include <array>
#include <map>

#include "worker/pickle/pickle_machine.h"

namespace lr::worker {
namespace {

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kTorch = "torch.";

constexpr std::array<std::string_view, 15> kGlobals = {kRebuildTensor,
                                                       kRebuildParameter,
                                                       "collections.OrderedDict",
                                                       "torch.FloatStorage",
                                                       "torch.DoubleStorage",
                                                       "torch.HalfStorage",
                                                       "torch.BFloat16Storage",
                                                       "torch.LongStorage",
                                                       "torch.IntStorage",
                                                       "torch.ShortStorage",
                                                       "torch.CharStorage",
                                                       "torch.ByteStorage",
                                                       "torch.BoolStorage",
                                                       "torch.ComplexFloatStorage",
                                                       "torch.ComplexDoubleStorage"};

constexpr PickleDialect kDialect = {
    .highest_protocol = 2, .has_persistent_ids = true, .globals = kGlobals};

/// Reads tensors out of one document and collects the storages that they use.
class TensorDecoder {
 public:
  explicit TensorDecoder(const PickleDocument& document) : document_(document) {}

  /// Adds the tensor that `index` is.
  Status Add(std::string name, uint32_t index) {
    const PickleValue& value = document_[index];
    if (value.kind == PickleKind::kCall && value.text == kRebuildParameter &&
        !value.items.empty() && document_[value.items[0]].text == kRebuildTensor) {
      return Add(std::move(name), value.items[0]);
    }
    if (value.kind != PickleKind::kCall || value.text != kRebuildTensor) {
      return InvalidArgument("'{}' is no tensor", name);
    }
    if (value.items.size() < 4 || document_[value.items[1]].kind != PickleKind::kInteger) {
      return InvalidArgument("tensor '{}' has wrong arguments", name);
    }
    PickledTensor tensor;
    LR_ASSIGN(tensor.storage, Storage(value.items[0]));
    tensor.offset = document_[value.items[1]].integer;
    LR_ASSIGN(tensor.sizes, Integers(value.items[2]));
    LR_ASSIGN(tensor.strides, Integers(value.items[3]));
    if (tensor.sizes.size() != tensor.strides.size() || tensor.sizes.size() > 16) {
      return InvalidArgument("tensor '{}' has {} sizes and {} strides",
                             name,
                             tensor.sizes.size(),
                             tensor.strides.size());
    }
    tensor.name = std::move(name);
    result_.tensors.push_back(std::move(tensor));
    return {};
  }

  PickledTensors Finish() && {
    result_.consumed = document_.consumed;
    return std::move(result_);
  }

 private:
  /// ("storage", <class>, key, location, numel[, view]) -> the storage of that key.
  Result<size_t> Storage(uint32_t index) {
    const PickleValue& value = document_[index];
    if (value.kind != PickleKind::kPersistent) {
      return InvalidArgument("a tensor without a storage");
    }
    const PickleValue& id = document_[value.items[0]];
    const bool is_tuple =
        id.kind == PickleKind::kTuple && (id.items.size() == 5 || id.items.size() == 6);
    const auto item = [&](size_t i) -> const PickleValue& { return document_[id.items[i]]; };
    if (!is_tuple || item(0).text != "storage" || item(1).kind != PickleKind::kGlobal ||
        item(2).kind != PickleKind::kText || item(4).kind != PickleKind::kInteger) {
      return InvalidArgument("a persistent object that is not a storage");
    }
    if (id.items.size() == 6 && item(5).kind != PickleKind::kNone) {
      return InvalidArgument(
          "a storage that is a view of another one, as old versions of torch wrote");
    }
    PickledStorage storage{std::string(item(2).text),
                           std::string(item(1).text.substr(kTorch.size())),
                           item(4).integer};
    const auto [known, is_new] = index_of_key_.try_emplace(storage.key, result_.storages.size());
    if (is_new) {
      result_.storages.push_back(std::move(storage));
    } else if (result_.storages[known->second].type != storage.type ||
               result_.storages[known->second].numel != storage.numel) {
      return InvalidArgument("storage '{}' described in two ways", storage.key);
    }
    return known->second;
  }

  Result<std::vector<int64_t>> Integers(uint32_t tuple) const {
    std::vector<int64_t> integers;
    for (const uint32_t index : document_[tuple].items) {
      if (document_[index].kind != PickleKind::kInteger) {
        return InvalidArgument("a shape that is not of integers");
      }
      integers.push_back(document_[index].integer);
    }
    return integers;
  }

  const PickleDocument& document_;
  PickledTensors result_;
  std::map<std::string, size_t> index_of_key_;
};

}  // namespace

Result<PickledTensors> ParseTensorPickle(std::string_view bytes) {
  LR_ASSIGN(const PickleDocument document, ReadPickle(bytes, kDialect));
  const PickleValue& root = document[document.root];
  if (root.kind != PickleKind::kDict) {
    return InvalidArgument("the file holds no dictionary of tensors");
  }
  TensorDecoder decoder(document);
  for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& key = document[root.items[i]];
    if (key.kind != PickleKind::kText) {
      return InvalidArgument("a key of the dictionary is no text");
    }
    LR_TRY(decoder.Add(std::string(key.text), root.items[i + 1]));
  }
  return std::move(decoder).Finish();
}

Result<PickledTensors> ParseSingleTensorPickle(std::string_view bytes) {
  LR_ASSIGN(const PickleDocument document, ReadPickle(bytes, kDialect));
  TensorDecoder decoder(document);
  LR_TRY(decoder.Add("the item", document.root));
  return std::move(decoder).Finish();
}

Result<PickledNames> ParseNamesPickle(std::string_view bytes) {
  LR_ASSIGN(const PickleDocument document, ReadPickle(bytes, kDialect));
  const PickleValue& root = document[document.root];
  if (root.kind != PickleKind::kList) {
    return InvalidArgument("the file has no list of its storages");
  }
  PickledNames result;
  for (const uint32_t index : root.items) {
    if (document[index].kind != PickleKind::kText) {
      return InvalidArgument("the file's list of storages has an entry that is no text");
    }
    result.names.emplace_back(document[index].text);
  }
  result.consumed = document.consumed;
  return result;
}

Result<size_t> SkipPickle(std::string_view bytes) {
  LR_ASSIGN(const PickleDocument document, ReadPickle(bytes, kDialect));
  return document.consumed;
}

}  // namespace lr::worker
