#pragma once
/// (pure) The closed subset of pickle in which torch.save writes a dictionary of tensors.
///
/// Nothing is ever called or imported: a global is only a name, and of all names only the few that
/// rebuild tensors are known. Every other opcode or name is refused with its place. Memory is
/// bounded by the input's length. Read by torch_file.cc from files that people downloaded.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// A block of memory that the file holds beside the pickle.
struct PickledStorage {
  std::string key;
  std::string type;  ///< torch's class, for example FloatStorage
  int64_t numel = 0;
};

/// A view of a storage, in elements.
struct PickledTensor {
  std::string name;
  size_t storage = 0;  ///< index into PickledTensors::storages
  int64_t offset = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct PickledTensors {
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;  ///< in dictionary order
  size_t consumed = 0;                 ///< bytes up to and including STOP
};

/// A dictionary from names to tensors.
Result<PickledTensors> ParseTensorPickle(std::string_view bytes);

struct PickledNames {
  std::vector<std::string> names;
  size_t consumed = 0;
};

/// A list of strings.
Result<PickledNames> ParseNamesPickle(std::string_view bytes);

/// Where the pickle at the start of `bytes` ends; its content must be of plain objects.
Result<size_t> SkipPickle(std::string_view bytes);

}  // namespace lr::worker
