#pragma once
/// (pure) The closed subset of pickle in which torch.save writes tensors.
///
/// Of all names only the few that rebuild tensors are known; every other one is refused with its
/// place (pickle_machine.h). Called by torch_file.cc for files that people downloaded, and by the
/// tensor items of distributed checkpoints. Errors are kInvalidArgument.

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

/// One tensor, without a name.
Result<PickledTensors> ParseSingleTensorPickle(std::string_view bytes);

/// A list of strings.
Result<PickledNames> ParseNamesPickle(std::string_view bytes);

/// Where the pickle at the start of `bytes` ends; its content must be of plain objects.
Result<size_t> SkipPickle(std::string_view bytes);

}  // namespace lr::worker
