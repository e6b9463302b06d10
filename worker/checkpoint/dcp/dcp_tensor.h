#pragma once
/// Tensors of a distributed checkpoint: DcpDirectory's bytes as host tensors with memory of their
/// own, contiguous. Called by the loading of sharded state; errors are DcpDirectory's, and
/// kUnimplemented for types that torch.save has no storage class for.

#include <string>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_directory.h"

namespace lr::worker {

/// Rows of a tensor: [wanted.count, …].
Result<at::Tensor> ReadDcpRows(DcpDirectory& directory, const std::string& key, DcpRows wanted);

/// The whole tensor.
Result<at::Tensor> ReadDcpTensor(DcpDirectory& directory, const std::string& key);

}  // namespace lr::worker
