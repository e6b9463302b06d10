// See the header.
#include "worker/checkpoint/dcp/dcp_tensor.h"

#include <ATen/Functions.h>

#include "worker/checkpoint/dcp/dcp_tensor_type.h"

namespace lr::worker {

Result<at::Tensor> ReadDcpRows(DcpDirectory& directory, const std::string& key, DcpRows wanted) {
  LR_ASSIGN(const DcpTensor* tensor, directory.Find(key));
  const std::optional<c10::ScalarType> type = ScalarTypeOf(*tensor->dtype);
  if (!type) {
    return Unimplemented("'{}': tensors of type {} are not read here", key, tensor->dtype->name);
  }
  LR_TRY(directory.CheckRows(key, wanted));
  std::vector<int64_t> shape = tensor->size;
  if (!shape.empty()) {
    shape[0] = wanted.count;
  }
  const at::Tensor target = at::empty(shape, *type);
  LR_TRY(directory.ReadRows(
      key, wanted, {static_cast<std::byte*>(target.mutable_data_ptr()), target.nbytes()}));
  return target;
}

Result<at::Tensor> ReadDcpTensor(DcpDirectory& directory, const std::string& key) {
  LR_ASSIGN(const DcpTensor* tensor, directory.Find(key));
  return ReadDcpRows(directory, key, WholeOf(*tensor));
}

}  // namespace lr::worker
