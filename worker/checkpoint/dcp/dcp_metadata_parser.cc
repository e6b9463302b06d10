// (pure) The class tokens of 4.2.2, one function each; then tensors and storage are joined on
// (key, offsets).
#include "worker/checkpoint/dcp/dcp_metadata_parser.h"

#include <array>
#include <optional>

#include <fmt/ranges.h>

#include "worker/checkpoint/dcp/dcp_names.h"
#include "worker/pickle/pickle_machine.h"

namespace lr::worker {
namespace {

constexpr std::string_view kOldProperties =
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties";
constexpr size_t kMostDims = 64;

/// Names beside the dtypes.
constexpr std::array<std::string_view, 23> kNames = {
    dcp::kMetadata,
    dcp::kTensor,
    dcp::kBytes,
    dcp::kChunk,
    dcp::kProperties,
    dcp::kMemoryFormat,
    dcp::kIndex,
    dcp::kStorageMeta,
    dcp::kStorageInfo,
    dcp::kSize,
    dcp::kLayout,
    kOldProperties,
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "builtins.getattr",
    "collections.OrderedDict",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.WindowsPath",
    "pathlib.PureWindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.PurePosixPath",
    "pathlib._local.WindowsPath",
    "pathlib._local.PureWindowsPath"};

std::vector<std::string_view> AllNames() {
  std::vector<std::string_view> names(kNames.begin(), kNames.end());
  for (const DcpDtype& dtype : DcpDtypes()) {
    names.push_back(dtype.name);
  }
  return names;
}

/// A block of a tensor, or a value when there are no offsets.
using StorageKey = std::pair<std::string_view, std::optional<std::vector<int64_t>>>;

class MetadataDecoder {
 public:
  /// References between values could make a small file large: what is copied out of it is counted.
  MetadataDecoder(const PickleDocument& document, size_t file_size)
      : document_(document), budget_(16 * file_size) {}

  Result<DcpMetadata> Decode() {
    const PickleValue& root = document_[document_.root];
    if (!IsA(root, dcp::kMetadata)) {
      return InvalidArgument("the file does not hold torch's checkpoint metadata");
    }
    LR_ASSIGN(const PickleValue* storage, Attribute(root, "storage_data", PickleKind::kDict));
    LR_TRY(DecodeStorage(*storage).WithContext("storage_data"));
    LR_ASSIGN(const PickleValue* state, Attribute(root, "state_dict_metadata", PickleKind::kDict));
    for (size_t i = 0; i + 1 < state->items.size(); i += 2) {
      LR_ASSIGN(const std::string_view key, Text(document_[state->items[i]], "a key"));
      LR_TRY(DecodeEntry(key, document_[state->items[i + 1]]).WithContext("'{}'", key));
    }
    if (const PickleValue* planner = Find(root, "planner_data");
        planner != nullptr && planner->kind != PickleKind::kNone) {
      LR_TRY(DecodePaths(*planner).WithContext("planner_data"));
    }
    return std::move(result_);
  }

 private:
  static bool IsA(const PickleValue& value, std::string_view name) {
    return value.kind == PickleKind::kCall && value.text == name;
  }

  Status Charge(size_t amount) {
    charged_ += amount;
    return charged_ <= budget_
               ? Status()
               : InvalidArgument("the file repeats itself beyond {} bytes", budget_);
  }

  /// An attribute of an object; null when it has none of that name.
  const PickleValue* Find(const PickleValue& object, std::string_view name) const {
    if (object.state == kNoPickleValue || document_[object.state].kind != PickleKind::kDict) {
      return nullptr;
    }
    const std::vector<uint32_t>& items = document_[object.state].items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (document_[items[i]].kind == PickleKind::kText && document_[items[i]].text == name) {
        return &document_[items[i + 1]];
      }
    }
    return nullptr;
  }

  Result<const PickleValue*> Attribute(const PickleValue& object,
                                       std::string_view name,
                                       PickleKind kind) const {
    const PickleValue* value = Find(object, name);
    if (value == nullptr || value->kind != kind) {
      return InvalidArgument("`{}` is missing or of another kind", name);
    }
    return value;
  }

  Result<std::string_view> Text(const PickleValue& value, std::string_view what) {
    if (value.kind != PickleKind::kText) {
      return InvalidArgument("{} is not a text", what);
    }
    LR_TRY(Charge(value.text.size()));
    return value.text;
  }

  /// torch.Size((a, b, …)).
  Result<std::vector<int64_t>> Size(const PickleValue& object, std::string_view name) {
    LR_ASSIGN(const PickleValue* size, Attribute(object, name, PickleKind::kCall));
    const bool is_size = size->text == dcp::kSize && size->items.size() == 1 &&
                         document_[size->items[0]].kind == PickleKind::kTuple;
    if (!is_size || document_[size->items[0]].items.size() > kMostDims) {
      return InvalidArgument("`{}` is not a torch.Size of at most {} dims", name, kMostDims);
    }
    std::vector<int64_t> numbers;
    for (const uint32_t index : document_[size->items[0]].items) {
      if (document_[index].kind != PickleKind::kInteger) {
        return InvalidArgument("`{}` is not of integers", name);
      }
      numbers.push_back(document_[index].integer);
    }
    LR_TRY(Charge(numbers.size()));
    return numbers;
  }

  Result<uint64_t> Count(const PickleValue& object, std::string_view name) const {
    LR_ASSIGN(const PickleValue* value, Attribute(object, name, PickleKind::kInteger));
    if (value->integer < 0) {
      return InvalidArgument("`{}` is {}", name, value->integer);
    }
    return static_cast<uint64_t>(value->integer);
  }

  Status DecodeStorage(const PickleValue& dict) {
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& index = document_[dict.items[i]];
      const PickleValue& info = document_[dict.items[i + 1]];
      if (!IsA(index, dcp::kIndex) || !IsA(info, dcp::kStorageInfo)) {
        return InvalidArgument("entry {} is no index with its storage", i / 2);
      }
      StorageKey key;
      LR_ASSIGN(const PickleValue* fqn, Attribute(index, "fqn", PickleKind::kText));
      key.first = fqn->text;
      if (const PickleValue* offset = Find(index, "offset");
          offset != nullptr && offset->kind != PickleKind::kNone) {
        LR_ASSIGN(key.second, Size(index, "offset"));
      }
      LR_ASSIGN(DcpLocation location, DecodeLocation(info).WithContext("'{}'", key.first));
      if (!storage_.emplace(std::move(key), std::move(location)).second) {
        return InvalidArgument("'{}' is stored twice", fqn->text);
      }
    }
    return {};
  }

  Result<DcpLocation> DecodeLocation(const PickleValue& info) {
    DcpLocation location;
    LR_ASSIGN(const PickleValue* path, Attribute(info, "relative_path", PickleKind::kText));
    LR_ASSIGN(location.file, Text(*path, "`relative_path`"));
    LR_ASSIGN(location.offset, Count(info, "offset"));
    LR_ASSIGN(location.length, Count(info, "length"));
    const PickleValue* transforms = Find(info, "transform_descriptors");
    if (transforms != nullptr && transforms->kind != PickleKind::kNone &&
        !(transforms->kind == PickleKind::kList && transforms->items.empty())) {
      return Unimplemented("its bytes are transformed (compressed), which is not read here");
    }
    return location;
  }

  Status DecodeEntry(std::string_view key, const PickleValue& value) {
    if (result_.tensors.contains(std::string(key)) || result_.values.contains(std::string(key))) {
      return InvalidArgument("described twice");
    }
    if (IsA(value, dcp::kTensor)) {
      LR_ASSIGN(result_.tensors[std::string(key)], DecodeTensor(key, value));
      return {};
    }
    if (!IsA(value, dcp::kBytes)) {
      return InvalidArgument("neither a tensor nor a value");
    }
    const auto stored = storage_.find({key, std::nullopt});
    if (stored == storage_.end()) {
      return InvalidArgument("no storage entry");
    }
    result_.values.emplace(key, stored->second);
    return {};
  }

  Result<DcpTensor> DecodeTensor(std::string_view key, const PickleValue& value) {
    DcpTensor tensor;
    LR_ASSIGN(tensor.size, Size(value, "size"));
    LR_TRY(DcpVolume(tensor.size));
    LR_ASSIGN(const PickleValue* properties, Attribute(value, "properties", PickleKind::kCall));
    LR_ASSIGN(tensor.dtype, DecodeProperties(*properties));
    LR_ASSIGN(const PickleValue* chunks, Attribute(value, "chunks", PickleKind::kList));
    for (const uint32_t index : chunks->items) {
      if (!IsA(document_[index], dcp::kChunk)) {
        return InvalidArgument("a chunk of another kind");
      }
      DcpChunk chunk;
      LR_ASSIGN(chunk.offsets, Size(document_[index], "offsets"));
      LR_ASSIGN(chunk.sizes, Size(document_[index], "sizes"));
      LR_ASSIGN(const int64_t volume, DcpVolume(chunk.sizes));
      if (volume == 0) {
        continue;
      }
      const auto stored = storage_.find({key, chunk.offsets});
      if (stored == storage_.end()) {
        return InvalidArgument("no storage entry for the chunk at [{}]",
                               fmt::join(chunk.offsets, ", "));
      }
      LR_TRY(Charge(stored->second.file.size()));
      chunk.location = stored->second;
      tensor.chunks.push_back(std::move(chunk));
    }
    return tensor;
  }

  /// (dtype, layout, requires_grad, memory format, pin_memory[, strides]); only the first two
  /// matter, as items are always contiguous.
  Result<const DcpDtype*> DecodeProperties(const PickleValue& object) const {
    const bool is_known = object.text == dcp::kProperties || object.text == kOldProperties;
    if (!is_known || object.state == kNoPickleValue) {
      return InvalidArgument("`properties` is of another kind");
    }
    const PickleValue& fields = document_[object.state];
    if (fields.kind != PickleKind::kTuple || fields.items.size() < 5 || fields.items.size() > 6) {
      return InvalidArgument("`properties` has {} fields", fields.items.size());
    }
    const PickleValue& type = document_[fields.items[0]];
    const DcpDtype* dtype = type.kind == PickleKind::kGlobal ? FindDcpDtype(type.text) : nullptr;
    if (dtype == nullptr) {
      return InvalidArgument("the dtype is of another kind");
    }
    const PickleValue& layout = document_[fields.items[1]];
    if (!IsA(layout, dcp::kLayout) || layout.items.size() != 1 ||
        document_[layout.items[0]].text != dcp::kStrided) {
      return InvalidArgument("the layout is not strided");
    }
    return dtype;
  }

  Status DecodePaths(const PickleValue& dict) {
    if (dict.kind != PickleKind::kDict) {
      return InvalidArgument("not a dictionary");
    }
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      LR_ASSIGN(const std::string_view key, Text(document_[dict.items[i]], "a key"));
      const PickleValue& tuple = document_[dict.items[i + 1]];
      DcpPath path;
      for (const uint32_t index : tuple.items) {
        const PickleValue& part = document_[index];
        if (part.kind == PickleKind::kInteger) {
          path.emplace_back(part.integer);
          continue;
        }
        LR_ASSIGN(const std::string_view text, Text(part, "a part of a path"));
        path.emplace_back(std::string(text));
      }
      LR_TRY(Charge(path.size()));
      if (tuple.kind != PickleKind::kTuple || !result_.paths.emplace(key, std::move(path)).second) {
        return InvalidArgument("the path of '{}' is no tuple, or there are two", key);
      }
    }
    return {};
  }

  const PickleDocument& document_;
  size_t budget_;
  size_t charged_ = 0;
  std::map<StorageKey, DcpLocation> storage_;
  DcpMetadata result_;
};

}  // namespace

Result<DcpMetadata> ParseDcpMetadata(std::string_view bytes) {
  static const std::vector<std::string_view> names = AllNames();
  LR_ASSIGN(const PickleDocument document,
            ReadPickle(bytes, {.highest_protocol = 5, .globals = names}));
  LR_ASSIGN(DcpMetadata metadata, MetadataDecoder(document, bytes.size()).Decode());
  LR_TRY(CheckDcpMetadata(metadata));
  return metadata;
}

}  // namespace lr::worker
