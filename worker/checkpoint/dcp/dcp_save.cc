// The plan, this rank's items, and what the ranks tell of where their items came to lie.
#include "worker/checkpoint/dcp/dcp_save.h"

#include <set>

#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include "common/base/text.h"
#include "common/io/atomic_file.h"
#include "worker/checkpoint/dcp/dcp_metadata_writer.h"
#include "worker/checkpoint/dcp/dcp_tensor_type.h"

namespace lr::worker {
namespace {

constexpr char kMetadataFile[] = ".metadata";

/// The shard has the rows that the rule gives its rank.
Status CheckShard(const DcpEntry& entry, const at::Tensor& tensor, const DcpPlace& place) {
  std::vector<int64_t> expected = entry.size;
  if (entry.is_sharded) {
    if (expected.empty()) {
      return InvalidArgument("'{}' has no dim to be sharded on", entry.key);
    }
    expected[0] = RowsOfShard(entry.size[0], place.shard_rank, place.shard_size).count;
  }
  if (tensor.sizes() != c10::IntArrayRef(expected)) {
    return InvalidArgument("'{}' has shape [{}] on rank {}, [{}] is its part of [{}]",
                           entry.key,
                           fmt::join(tensor.sizes(), ", "),
                           place.rank(),
                           fmt::join(expected, ", "),
                           fmt::join(entry.size, ", "));
  }
  return {};
}

/// Null for values.
Result<const DcpDtype*> CheckEntry(const DcpEntry& entry, const DcpPlace& place) {
  const auto* tensor = std::get_if<at::Tensor>(&entry.item);
  if (tensor == nullptr) {
    return static_cast<const DcpDtype*>(nullptr);
  }
  LR_TRY(CheckShard(entry, *tensor, place));
  const DcpDtype* dtype = DcpDtypeOf(tensor->scalar_type());
  if (dtype == nullptr) {
    return Unimplemented("'{}' has dtype {}, which cannot be saved",
                         entry.key,
                         c10::toString(tensor->scalar_type()));
  }
  return dtype;
}

/// One rank's shard file as text: digest, size, checksum; then offset and length of each item.
std::string EncodeReport(const std::string& digest, const DcpShardFile& shard) {
  std::string text = fmt::format("{} {} {}", digest, shard.file.size, shard.file.checksum);
  for (const DcpLocation& location : shard.locations) {
    text += fmt::format("\n{} {}", location.offset, location.length);
  }
  return text;
}

Result<DcpShardFile> DecodeReport(const std::string& text, const std::string& digest, int rank) {
  const std::vector<std::string> lines = Split(text, '\n');
  const std::vector<std::string> head = Split(lines[0], ' ');
  if (head.size() != 3 || head[0] != digest) {
    return FailedPrecondition("rank {} saves other keys, shapes or types than rank 0", rank);
  }
  DcpShardFile shard;
  shard.file = {static_cast<uint64_t>(ParseInt(head[1]).value_or(0)), head[2]};
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> numbers = Split(lines[i], ' ');
    const auto offset = numbers.size() == 2 ? ParseInt(numbers[0]) : std::nullopt;
    const auto length = numbers.size() == 2 ? ParseInt(numbers[1]) : std::nullopt;
    if (!offset || !length) {
      return Internal("rank {} reported '{}'", rank, lines[i]);
    }
    shard.locations.push_back(
        {DcpShardName(rank), static_cast<uint64_t>(*offset), static_cast<uint64_t>(*length)});
  }
  return shard;
}

}  // namespace

Result<DcpSave> DcpSave::Create(const std::vector<DcpEntry>& entries, const DcpPlace& place) {
  DcpSave save;
  save.rank_ = place.rank();
  std::vector<DcpProposal> proposals;
  std::set<std::string> known;
  for (const DcpEntry& entry : entries) {
    if (!known.insert(entry.key).second) {
      return InvalidArgument("'{}' is to be saved twice", entry.key);
    }
    LR_ASSIGN(const DcpDtype* dtype, CheckEntry(entry, place));
    save.dtypes_.push_back(dtype);
    save.keys_.push_back({entry.key, entry.path, DcpValue(), entry.size, entry.is_sharded});
    proposals.push_back({entry.size, dtype == nullptr ? 0 : dtype->bytes, entry.is_sharded});
  }
  save.plan_ = PlanDcpSave(proposals, place.shard_size, place.replicate_size);
  for (const DcpBlock& block : save.plan_[static_cast<size_t>(save.rank_)]) {
    save.items_.push_back(entries[block.proposal].item);
  }
  return save;
}

void DcpSave::TakeSnapshot() {
  for (DcpItem& item : items_) {
    if (auto* tensor = std::get_if<at::Tensor>(&item)) {
      at::Tensor copy = at::empty(tensor->sizes(), tensor->options().device(at::kCPU));
      copy.copy_(tensor->detach());
      *tensor = std::move(copy);
    }
  }
}

uint64_t DcpSave::bytes() const {
  constexpr uint64_t kArchive = 2048;  // records around the data
  uint64_t bytes = 0;
  for (const DcpItem& item : items_) {
    const auto* tensor = std::get_if<at::Tensor>(&item);
    bytes += kArchive + (tensor == nullptr ? 0 : tensor->nbytes());
  }
  return bytes;
}

Result<DcpShardFile> DcpSave::WriteShard(const std::filesystem::path& directory) const {
  return WriteDcpShard(directory, rank_, items_);
}

/// The same on ranks that save the same things.
std::string DcpSave::Digest() const {
  uint32_t crc = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    crc = UpdateCrc32(crc,
                      fmt::format("{} {} {} {}\n",
                                  keys_[i].key,
                                  dtypes_[i] == nullptr ? "value" : dtypes_[i]->name,
                                  fmt::join(keys_[i].size, ","),
                                  keys_[i].is_sharded));
  }
  return fmt::format("{:08x}", crc);
}

std::string DcpSave::Report(const DcpShardFile& shard) const {
  return EncodeReport(Digest(), shard);
}

Result<std::vector<CheckpointFile>> DcpSave::WriteMetadata(const std::filesystem::path& directory,
                                                           const std::vector<std::string>& reports,
                                                           const std::string& save_id) const {
  std::vector<DcpShardFile> shards;
  std::vector<CheckpointFile> files;
  if (reports.size() != plan_.size()) {
    return Internal("{} ranks reported, the plan has {}", reports.size(), plan_.size());
  }
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    LR_ASSIGN(DcpShardFile shard, DecodeReport(reports[rank], Digest(), static_cast<int>(rank)));
    files.push_back({DcpShardName(static_cast<int>(rank)), shard.file.size, shard.file.checksum});
    shards.push_back(std::move(shard));
  }
  LR_ASSIGN(const DcpMetadata metadata, MakeMetadata(shards));
  LR_TRY(FsyncDirectory(
      directory.string()));  // the shard files' names before the file that vouches for them
  LR_ASSIGN(const WrittenFile written,
            WriteDurableFile(directory / kMetadataFile, EncodeDcpMetadata(metadata, save_id)));
  LR_TRY(FsyncDirectory(directory.string()));
  files.push_back({kMetadataFile, written.size, written.checksum});
  return files;
}

Result<DcpMetadata> DcpSave::MakeMetadata(const std::vector<DcpShardFile>& shards) const {
  DcpMetadata metadata;
  for (size_t i = 0; i < keys_.size(); ++i) {
    metadata.paths[keys_[i].key] = keys_[i].path;
    if (dtypes_[i] != nullptr) {
      metadata.tensors[keys_[i].key] = {dtypes_[i], keys_[i].size, {}};
    }
  }
  std::map<std::string, uint64_t> sizes;
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    const std::vector<DcpBlock>& blocks = plan_[rank];
    if (blocks.size() != shards[rank].locations.size()) {
      return Internal("rank {} wrote {} items, planned were {}",
                      rank,
                      shards[rank].locations.size(),
                      blocks.size());
    }
    sizes[DcpShardName(static_cast<int>(rank))] = shards[rank].file.size;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::string& key = keys_[blocks[i].proposal].key;
      if (dtypes_[blocks[i].proposal] == nullptr) {
        metadata.values[key] = shards[rank].locations[i];
      } else {
        metadata.tensors[key].chunks.push_back(
            {blocks[i].offsets, blocks[i].sizes, shards[rank].locations[i]});
      }
    }
  }
  LR_TRY(CheckDcpMetadata(metadata));
  LR_TRY(CheckDcpRanges(metadata, sizes));
  return metadata;
}

}  // namespace lr::worker
