#pragma once
/// torch scalar types <-> DcpDtype: the types for which torch.save has a storage class of its own.
/// Used where items meet tensors; nothing here fails, other types are null.

#include <optional>

#include <c10/core/ScalarType.h>

#include "worker/checkpoint/dcp/dcp_dtype.h"

namespace lr::worker {

const DcpDtype* DcpDtypeOf(c10::ScalarType type);

std::optional<c10::ScalarType> ScalarTypeOf(const DcpDtype& dtype);

}  // namespace lr::worker
