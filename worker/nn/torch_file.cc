// Containers around a tensor pickle (checkpoints.md 4.4; torch/serialization.py for the older one).
// Any thread.
#include "worker/nn/torch_file.h"

#include <algorithm>
#include <caffe2/serialize/inline_container.h>
#include <cstring>
#include <fstream>
#include <map>

#include <ATen/ATen.h>

#include "worker/pickle/tensor_pickle.h"

namespace lr::worker {

namespace {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

constexpr uint64_t kLargestFile = uint64_t{8} << 30;
constexpr uint64_t kLargestPickle = uint64_t{64} << 20;

/// The pickled magic number with which the older format begins.
constexpr std::string_view kOldMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e",
                                     15);

Result<c10::ScalarType> TypeOfStorage(const PickledStorage& storage) {
  static const std::map<std::string, c10::ScalarType> types = {{"FloatStorage", at::kFloat},
                                                               {"DoubleStorage", at::kDouble},
                                                               {"HalfStorage", at::kHalf},
                                                               {"BFloat16Storage", at::kBFloat16},
                                                               {"LongStorage", at::kLong},
                                                               {"IntStorage", at::kInt},
                                                               {"ShortStorage", at::kShort},
                                                               {"CharStorage", at::kChar},
                                                               {"ByteStorage", at::kByte},
                                                               {"BoolStorage", at::kBool}};
  const auto found = types.find(storage.type);
  if (found == types.end()) {
    return InvalidArgument(
        "storage '{}' is of type {}, which is not read here", storage.key, storage.type);
  }
  return found->second;
}

/// A flat tensor of the storage's elements.
Result<at::Tensor> MakeStorage(const PickledStorage& storage, const void* data, uint64_t size) {
  LR_ASSIGN(const c10::ScalarType type, TypeOfStorage(storage));
  const uint64_t element = c10::elementSize(type);
  if (storage.numel < 0 || size / element != static_cast<uint64_t>(storage.numel) ||
      size % element != 0) {
    return InvalidArgument("storage '{}' has {} bytes for {} elements of {} bytes",
                           storage.key,
                           size,
                           storage.numel,
                           element);
  }
  at::Tensor flat = at::empty({storage.numel}, type);
  if (size > 0) {
    std::memcpy(flat.mutable_data_ptr(), data, size);
  }
  return flat;
}

/// True when every element of the view lies within `numel`.
bool Fits(const PickledTensor& tensor, int64_t numel) {
  int64_t last = tensor.offset;
  bool is_empty = false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    int64_t reach = 0;
    if (tensor.sizes[i] < 0 || tensor.strides[i] < 0 ||
        __builtin_mul_overflow(
            std::max<int64_t>(tensor.sizes[i] - 1, 0), tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
    is_empty = is_empty || tensor.sizes[i] == 0;
  }
  return tensor.offset >= 0 && (is_empty ? tensor.offset <= numel : last < numel);
}

/// True when the view has no more elements than its storage: overlapping views could claim far more
/// than the file holds.
bool IsNoLarger(const PickledTensor& tensor, int64_t numel) {
  int64_t product = 1;
  for (const int64_t size : tensor.sizes) {
    if (__builtin_mul_overflow(product, size, &product)) {
      return false;
    }
  }
  return product <= numel;
}

Result<NamedTensorList> MakeTensors(const PickledTensors& pickled,
                                    const std::vector<at::Tensor>& storages) {
  NamedTensorList tensors;
  for (const PickledTensor& tensor : pickled.tensors) {
    const at::Tensor& storage = storages[tensor.storage];
    if (!Fits(tensor, storage.numel()) || !IsNoLarger(tensor, storage.numel())) {
      return InvalidArgument(
          "tensor '{}' of shape [{}] does not lie within its storage of {} elements",
          tensor.name,
          fmt::join(tensor.sizes, ", "),
          storage.numel());
    }
    tensors.emplace_back(tensor.name,
                         storage.as_strided(tensor.sizes, tensor.strides, tensor.offset)
                             .clone(at::MemoryFormat::Contiguous));
  }
  return tensors;
}

Result<NamedTensorList> ReadArchive(const std::string& path, uint64_t file_size) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  const auto record = [&](const std::string& name,
                          uint64_t limit) -> Result<std::pair<at::DataPtr, uint64_t>> {
    if (!reader.hasRecord(name)) {
      return InvalidArgument("the archive has no record '{}'", name);
    }
    if (const uint64_t size = reader.getRecordSize(name); size > limit) {
      return InvalidArgument("record '{}' claims {} bytes (limit {})", name, size, limit);
    }
    auto [data, size] = reader.getRecord(name);
    return std::pair<at::DataPtr, uint64_t>(std::move(data), size);
  };
  if (reader.hasRecord("byteorder")) {
    LR_ASSIGN(const auto order, record("byteorder", 16));
    if (std::string_view(static_cast<const char*>(order.first.get()), order.second) != "little") {
      return InvalidArgument("the archive was written on a big-endian machine");
    }
  }
  LR_ASSIGN(const auto pickle, record("data.pkl", kLargestPickle));
  LR_ASSIGN(const PickledTensors pickled,
            ParseTensorPickle({static_cast<const char*>(pickle.first.get()), pickle.second}));
  std::vector<at::Tensor> storages;
  for (const PickledStorage& storage : pickled.storages) {
    LR_ASSIGN(const auto bytes, record("data/" + storage.key, file_size));
    LR_ASSIGN(at::Tensor flat, MakeStorage(storage, bytes.first.get(), bytes.second));
    storages.push_back(std::move(flat));
  }
  return MakeTensors(pickled, storages);
}

/// Magic, protocol version, system information, the object, the list of storage keys; then for each
/// key an int64 count and the elements.
Result<NamedTensorList> ReadOldFormat(std::string_view bytes) {
  bytes.remove_prefix(kOldMagic.size());
  for (const char* part : {"protocol version", "system information"}) {
    LR_ASSIGN(const size_t length, SkipPickle(bytes).WithContext("{}", part));
    bytes.remove_prefix(length);
  }
  LR_ASSIGN(const PickledTensors pickled, ParseTensorPickle(bytes));
  bytes.remove_prefix(pickled.consumed);
  LR_ASSIGN(const PickledNames keys, ParseNamesPickle(bytes));
  bytes.remove_prefix(keys.consumed);

  std::map<std::string, size_t> index_of_key;
  for (size_t i = 0; i < pickled.storages.size(); ++i) {
    index_of_key[pickled.storages[i].key] = i;
  }
  std::vector<at::Tensor> storages(pickled.storages.size());
  for (const std::string& key : keys.names) {
    const auto found = index_of_key.find(key);
    if (found == index_of_key.end()) {
      return InvalidArgument("the file lists storage '{}', which no tensor uses", key);
    }
    const PickledStorage& storage = pickled.storages[found->second];
    LR_ASSIGN(const c10::ScalarType type, TypeOfStorage(storage));
    const uint64_t element = c10::elementSize(type);
    int64_t count = 0;
    if (bytes.size() < sizeof(count)) {
      return DataLoss("the file ends before storage '{}'", key);
    }
    std::memcpy(&count, bytes.data(), sizeof(count));
    bytes.remove_prefix(sizeof(count));
    if (count < 0 || static_cast<uint64_t>(count) > bytes.size() / element) {
      return DataLoss("the file ends within storage '{}' ({} elements announced, {} bytes left)",
                      key,
                      count,
                      bytes.size());
    }
    const uint64_t size = static_cast<uint64_t>(count) * element;
    LR_ASSIGN(storages[found->second], MakeStorage(storage, bytes.data(), size));
    bytes.remove_prefix(size);
  }
  for (size_t i = 0; i < storages.size(); ++i) {
    if (!storages[i].defined()) {
      return InvalidArgument("the file does not contain storage '{}'", pickled.storages[i].key);
    }
  }
  return MakeTensors(pickled, storages);
}

Result<std::string> ReadWhole(const std::filesystem::path& path, uint64_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return DataLoss("only {} of {} bytes could be read", file.gcount(), size);
  }
  return bytes;
}

Result<NamedTensorList> ReadAny(const std::filesystem::path& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) {
    return NotFound("cannot open: {}", error.message());
  }
  if (size > kLargestFile) {
    return InvalidArgument("{} bytes (limit {})", size, kLargestFile);
  }
  std::string head(std::min<uint64_t>(size, kOldMagic.size()), '\0');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  if (head == kOldMagic) {
    LR_ASSIGN(const std::string bytes, ReadWhole(path, size));
    return ReadOldFormat(bytes);
  }
  if (!head.starts_with("PK\x03\x04")) {
    return InvalidArgument("not a file that torch.save wrote");
  }
  return ReadArchive(path.string(), size);
}

}  // namespace

Result<NamedTensorList> ReadTorchFile(const std::filesystem::path& path) {
  try {
    return ReadAny(path).WithContext("'{}'", path.string());
  } catch (const std::exception& failure) {  // LibTorch's archive reader, out of memory
    return InvalidArgument("'{}': {}", path.string(), failure.what());
  }
}

}  // namespace lr::worker
