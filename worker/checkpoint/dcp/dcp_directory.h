#pragma once
/// A distributed checkpoint on disk, open for reading (checkpoints.md 4.10). Without LibTorch:
/// dcp_tensor.h makes tensors of it.
///
/// Open() checks the whole structure; tensors are read afterwards, any range of rows from any
/// number of stored blocks, moving only the bytes that are wanted. One thread at a time; blocking.
/// Errors name the directory and the key: kNotFound (no `.metadata`: not a checkpoint, or one that
/// was never finished; a shard file is missing), kInvalidArgument, kDataLoss (cut short, checksum).

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_item.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_read_plan.h"
#include "worker/checkpoint/dcp/dcp_value.h"
#include "worker/checkpoint/positioned_file.h"

namespace lr::worker {

/// What a wrong checksum means. torch checks none and can be told to write none.
enum class DcpChecksums { kNoteMismatch, kRefuseMismatch };

/// All rows of a tensor; one when it has no dims.
DcpRows WholeOf(const DcpTensor& tensor);

/// How many bytes rows of a tensor are. The metadata's checks keep it within an int64.
uint64_t BytesOfRows(const DcpTensor& tensor, DcpRows rows);

class DcpDirectory {
 public:
  static Result<DcpDirectory> Open(const std::filesystem::path& path,
                                   DcpChecksums checksums = DcpChecksums::kNoteMismatch);

  const DcpMetadata& metadata() const { return metadata_; }

  /// kNotFound when there is no such tensor.
  Result<const DcpTensor*> Find(const std::string& key) const;

  /// kInvalidArgument unless the tensor has these rows.
  Status CheckRows(const std::string& key, DcpRows wanted) const;

  /// Fills `target`, which has BytesOfRows bytes, row by row. Checksums are compared for blocks
  /// that are read whole. Peak memory beside the target: 16 MiB, or one block if that is stored
  /// with foreign strides.
  Status ReadRows(const std::string& key, DcpRows wanted, std::span<std::byte> target);

  Result<DcpValue> ReadValue(const std::string& key);

  /// Reads every item of every key: structure, and the checksum of each record. `progress` is told
  /// the bytes of each item that was read. A mismatch is an error whatever Open() was told.
  Status VerifyItems(const std::function<void(uint64_t bytes)>& progress);

  /// Worth one log line each: checksums that differed.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  /// Where rows go: memory with the shape of the wanted rows of the whole tensor.
  struct Target {
    const DcpTensor* tensor;
    std::vector<int64_t> strides;
    std::byte* memory;
  };

  DcpDirectory(std::filesystem::path path, DcpChecksums checksums, DcpMetadata metadata)
      : path_(std::move(path)), checksums_(checksums), metadata_(std::move(metadata)) {}

  Status CheckFiles();
  Result<const PositionedFile*> FileOf(const DcpLocation& location);
  Status ReadPiece(const DcpPiece& piece, const Target& target);
  Status ReadThroughBuffer(const PositionedFile& file,
                           const DcpTensorItem& item,
                           const DcpPiece& piece,
                           const Target& target);
  Status ReadForeignStrides(const PositionedFile& file,
                            const DcpTensorItem& item,
                            const DcpPiece& piece,
                            const Target& target);
  Status CheckCrc(const DcpTensorItem& item, const DcpLocation& location, uint32_t crc);

  std::filesystem::path path_;
  DcpChecksums checksums_;
  DcpMetadata metadata_;
  std::optional<PositionedFile> file_;  ///< the one read last
  std::vector<std::string> notes_;
};

}  // namespace lr::worker
