#pragma once
/// A distributed checkpoint on disk, open for reading (checkpoints.md 4.10).
///
/// Open() checks the whole structure; tensors are read afterwards, any range of rows from any
/// number of stored blocks, moving only the bytes that are wanted. One thread at a time; blocking.
/// Errors name the directory and the key: kNotFound (no `.metadata`: not a checkpoint, or one that
/// was never finished; a shard file is missing), kInvalidArgument, kDataLoss (cut short, checksum).

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/checkpoint/dcp/dcp_item.h"
#include "worker/checkpoint/dcp/dcp_metadata.h"
#include "worker/checkpoint/dcp/dcp_read_plan.h"
#include "worker/checkpoint/dcp/dcp_value.h"
#include "worker/checkpoint/positioned_file.h"

namespace lr::worker {

/// What a wrong checksum means. torch checks none and can be told to write none.
enum class DcpChecksums { kNoteMismatch, kRefuseMismatch };

class DcpDirectory {
 public:
  static Result<DcpDirectory> Open(const std::filesystem::path& path,
                                   DcpChecksums checksums = DcpChecksums::kNoteMismatch);

  const DcpMetadata& metadata() const { return metadata_; }

  /// Rows of a tensor: [wanted.count, …], on the host, contiguous. Checksums are compared for
  /// blocks that are read whole. Peak memory beside the result: 16 MiB, or one block if that is
  /// stored with foreign strides.
  Result<at::Tensor> ReadRows(const std::string& key, DcpRows wanted);

  /// The whole tensor.
  Result<at::Tensor> Read(const std::string& key);

  Result<DcpValue> ReadValue(const std::string& key);

  /// Worth one log line each: checksums that differed.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  DcpDirectory(std::filesystem::path path, DcpChecksums checksums, DcpMetadata metadata)
      : path_(std::move(path)), checksums_(checksums), metadata_(std::move(metadata)) {}

  Status CheckFiles();
  Result<const PositionedFile*> FileOf(const DcpLocation& location);
  Result<const DcpTensor*> Find(const std::string& key) const;
  Result<at::Tensor> ReadPieces(const DcpTensor& tensor, DcpRows wanted);
  Status ReadPiece(const DcpTensor& tensor, const DcpPiece& piece, at::Tensor& target);
  Status CheckCrc(const DcpTensorItem& item, const DcpLocation& location, const at::Tensor& data);

  std::filesystem::path path_;
  DcpChecksums checksums_;
  DcpMetadata metadata_;
  std::optional<PositionedFile> file_;  ///< the one read last
  std::vector<std::string> notes_;
};

}  // namespace lr::worker
