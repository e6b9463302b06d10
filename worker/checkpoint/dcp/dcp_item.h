#pragma once
/// One item of a shard file, read: a torch.save archive inside the window that the metadata gives
/// (checkpoints.md 4.4, 4.10). Called by DcpDirectory; blocking; any thread.
///
/// Errors: kInvalidArgument (no such archive, names that no such item has), kDataLoss (cut short),
/// kUnimplemented.

#include <cstdint>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_value.h"
#include "worker/checkpoint/positioned_file.h"
#include "worker/pickle/tensor_pickle.h"

namespace lr::worker {

/// A tensor's elements in the file; nothing of them is read yet.
struct DcpTensorItem {
  PickledTensor layout;
  PickledStorage storage;
  uint64_t data_offset = 0;  ///< within the file
  uint64_t data_bytes = 0;   ///< as many as the storage has elements
  uint32_t crc = 0;
};

/// Fails unless the item is of this type and these sizes and every element lies within its storage,
/// which has no others.
Result<DcpTensorItem> OpenDcpTensorItem(const PositionedFile& file,
                                        const DcpChunk& chunk,
                                        const DcpDtype& dtype);

/// Every record of the item has the checksum that its archive says; kDataLoss names the record.
Status CheckDcpItemChecksums(const PositionedFile& file, const DcpLocation& location);

Result<DcpValue> ReadDcpValueItem(const PositionedFile& file, const DcpLocation& location);

}  // namespace lr::worker
