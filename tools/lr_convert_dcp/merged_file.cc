// See the header.
#include "tools/lr_convert_dcp/merged_file.h"

#include <algorithm>
#include <fcntl.h>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unistd.h>

#include "common/io/atomic_file.h"
#include "worker/checkpoint/positioned_file.h"
#include "worker/checkpoint/safetensors_header_file.h"

namespace lr {
namespace {

namespace fs = std::filesystem;
using worker::DurableFile;
using worker::SafetensorsEntry;
using worker::SafetensorsHeader;
using worker::WrittenFile;

constexpr uint64_t kReadAtOnce = uint64_t{4} << 20;

std::map<std::string, const SafetensorsEntry*> ByName(const SafetensorsHeader& header) {
  std::map<std::string, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) {
    entries.emplace(entry.name, &entry);
  }
  return entries;
}

bool SameTensor(const SafetensorsEntry& a, const SafetensorsEntry& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

Status WriteTensors(worker::DcpDirectory& shards,
                    const MergePlan& plan,
                    DurableFile& file,
                    const ByteSink& sink,
                    const FaultPoint& fault) {
  LR_TRY(file.Write(plan.encoded));
  const uint64_t largest = plan.largest_tensor();
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(largest);
  for (const SafetensorsEntry& entry : plan.header.entries) {
    LR_TRY(fault("write tensor"));
    const std::string& key = plan.keys.at(entry.name);
    const std::span<std::byte> place(memory.get(), entry.bytes());
    LR_ASSIGN(const worker::DcpTensor* tensor, shards.Find(key));
    LR_TRY(shards.ReadRows(key, worker::WholeOf(*tensor), place));
    LR_TRY(file.Write({reinterpret_cast<const char*>(place.data()), place.size()}));
    sink(entry.bytes());
  }
  return {};
}

/// What is read afterwards comes from the disk where the kernel can do that.
void DropFromCache(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

Result<std::string> Checksum(const worker::PositionedFile& file, const ByteSink& sink) {
  std::string buffer(std::min(kReadAtOnce, file.size()), '\0');
  uint32_t crc = 0;
  for (uint64_t done = 0; done < file.size(); done += kReadAtOnce) {
    const uint64_t bytes = std::min(kReadAtOnce, file.size() - done);
    LR_TRY(file.Read(buffer.data(), bytes, done));
    crc = worker::UpdateCrc32(crc, std::string_view(buffer).substr(0, bytes));
    sink(bytes);
  }
  return fmt::format("{:08x}", crc);
}

/// What lies on disk is what was planned and written.
Status ReadBack(const fs::path& path,
                const MergePlan& plan,
                const WrittenFile& written,
                const ByteSink& sink) {
  DropFromCache(path);
  LR_ASSIGN(const worker::PositionedFile file, worker::PositionedFile::Open(path));
  LR_ASSIGN(const SafetensorsHeader header, worker::ReadSafetensorsHeader(file));
  const auto found = ByName(header);
  for (const SafetensorsEntry& entry : plan.header.entries) {
    const auto it = found.find(entry.name);
    if (it == found.end() || !SameTensor(*it->second, entry) || it->second->begin != entry.begin) {
      return DataLoss(
          "'{}': tensor '{}' is not there as it was written", path.string(), entry.name);
    }
  }
  LR_ASSIGN(const std::string checksum, Checksum(file, sink));
  if (file.size() != plan.file_bytes() || found.size() != plan.header.entries.size() ||
      checksum != written.checksum) {
    return DataLoss("'{}' read back: {} tensors, {} bytes, checksum {}; written: {}, {}, {}",
                    path.string(),
                    found.size(),
                    file.size(),
                    checksum,
                    plan.header.entries.size(),
                    plan.file_bytes(),
                    written.checksum);
  }
  return {};
}

}  // namespace

Result<WrittenFile> WriteMergedFile(worker::DcpDirectory& shards,
                                    const MergePlan& plan,
                                    const fs::path& path,
                                    const StartProgress& progress,
                                    const FaultPoint& fault) {
  LR_ASSIGN(DurableFile file, DurableFile::Create(path));
  const uint64_t data = plan.file_bytes() - plan.encoded.size();
  LR_TRY(WriteTensors(shards, plan, file, progress("Converting", data), fault));
  LR_TRY(fault("flush"));
  LR_ASSIGN(const WrittenFile written, file.Flush());
  LR_TRY(fault("read back"));
  LR_TRY(ReadBack(file.temporary(), plan, written, progress("Verifying", plan.file_bytes())));
  LR_TRY(fault("give name"));
  LR_TRY(file.Finish());
  LR_TRY(FsyncDirectory(path.parent_path().string()));
  return written;
}

Status CheckCovers(const fs::path& path, const MergePlan& plan) {
  LR_ASSIGN(const SafetensorsHeader header, worker::ReadSafetensorsHeader(path));
  const auto found = ByName(header);
  for (const SafetensorsEntry& entry : plan.header.entries) {
    auto it = found.find(entry.name);
    if (const auto alias = header.metadata.find(entry.name);
        it == found.end() && alias != header.metadata.end()) {
      it = found.find(alias->second);
    }
    if (it == found.end() || !SameTensor(*it->second, entry)) {
      return DataLoss("'{}' lacks tensor '{}' of the shards", path.string(), entry.name);
    }
  }
  return {};
}

}  // namespace lr
