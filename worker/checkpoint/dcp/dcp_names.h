#pragma once
/// (pure) The Python names that `.metadata` consists of: one spelling for reader and writer.

#include <string_view>

namespace lr::worker::dcp {

inline constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata.Metadata";
inline constexpr std::string_view kTensor =
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata";
inline constexpr std::string_view kBytes =
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata";
inline constexpr std::string_view kChunk =
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata";
inline constexpr std::string_view kProperties =
    "torch.distributed.checkpoint.metadata.TensorProperties";
inline constexpr std::string_view kMemoryFormat =
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING";
inline constexpr std::string_view kIndex = "torch.distributed.checkpoint.metadata.MetadataIndex";
inline constexpr std::string_view kStorageMeta =
    "torch.distributed.checkpoint.metadata.StorageMeta";
inline constexpr std::string_view kStorageInfo =
    "torch.distributed.checkpoint.filesystem._StorageInfo";
inline constexpr std::string_view kSize = "torch.Size";
inline constexpr std::string_view kLayout = "torch.serialization._get_layout";
inline constexpr std::string_view kStrided = "torch.strided";

}  // namespace lr::worker::dcp
