// See the header.
#include "tools/lr_convert_dcp/inspection.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/ranges.h>

#include "common/contract/checkpoint_layout.h"
#include "worker/checkpoint/checkpoint_check.h"
#include "worker/checkpoint/dcp/dcp_directory.h"
#include "worker/checkpoint/safetensors_header_file.h"

namespace lr {
namespace {

namespace fs = std::filesystem;
using worker::DcpDirectory;
using worker::SafetensorsHeader;

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return !path.empty() && fs::is_directory(path, error);
}

fs::path Root(const CheckpointPlace& place) {
  return place.step.value_or(place.pretrained);
}

std::string Shown(const CheckpointPlace& place, const fs::path& path) {
  return path.lexically_relative(Root(place)).generic_string();
}

std::vector<fs::path> ShardFolders(const CheckpointPlace& place) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : {place.shards(), place.optimizer()}) {
    if (IsDirectory(folder)) {
      folders.push_back(folder);
    }
  }
  return folders;
}

std::vector<fs::path> SafetensorsFiles(const CheckpointPlace& place) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(Root(place), error);
       !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    std::error_code entry;
    if (it->is_regular_file(entry) && it->path().extension() == ".safetensors") {
      files.push_back(it->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void ListShards(const DcpDirectory& shards,
                const std::string& source,
                std::vector<ListedEntry>& to) {
  for (const auto& [key, tensor] : shards.metadata().tensors) {
    ListedEntry entry{source, key, std::string(tensor.dtype->name), tensor.size, 0, {}};
    entry.bytes = worker::BytesOfRows(tensor, worker::WholeOf(tensor));
    std::set<std::string> files;
    for (const worker::DcpChunk& chunk : tensor.chunks) {
      files.insert(chunk.location.file);
    }
    entry.files.assign(files.begin(), files.end());
    to.push_back(std::move(entry));
  }
  for (const auto& [key, location] : shards.metadata().values) {
    to.push_back({source, key, "value", {}, location.length, {location.file}});
  }
}

void ListFile(const SafetensorsHeader& header,
              const std::string& source,
              std::vector<ListedEntry>& to) {
  for (const worker::SafetensorsEntry& entry : header.entries) {
    to.push_back({source,
                  entry.name,
                  std::string(worker::DtypeName(entry.dtype)),
                  {entry.shape.begin(), entry.shape.end()},
                  entry.bytes(),
                  {}});
  }
}

CheckOutcome Outcome(std::string what, const Status& status, std::string detail) {
  return {std::move(what), status.ok(), status.ok() ? std::move(detail) : status.message()};
}

/// Columns as wide as their widest cell; the last one is left ragged.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

Result<std::vector<ListedEntry>> ListEntries(const CheckpointPlace& place) {
  std::vector<ListedEntry> entries;
  for (const fs::path& folder : ShardFolders(place)) {
    LR_ASSIGN(const DcpDirectory shards, DcpDirectory::Open(folder));
    ListShards(shards, Shown(place, folder), entries);
  }
  for (const fs::path& file : SafetensorsFiles(place)) {
    LR_ASSIGN(const SafetensorsHeader header, worker::ReadSafetensorsHeader(file));
    ListFile(header, Shown(place, file), entries);
  }
  return entries;
}

std::string EntriesTable(const std::vector<ListedEntry>& entries) {
  std::vector<std::vector<std::string>> rows = {
      {"SOURCE", "KEY", "TYPE", "SHAPE", "BYTES", "FILES"}};
  uint64_t bytes = 0;
  for (const ListedEntry& entry : entries) {
    rows.push_back({entry.source,
                    entry.key,
                    entry.dtype,
                    fmt::format("[{}]", fmt::join(entry.shape, ", ")),
                    fmt::format("{}", entry.bytes),
                    fmt::format("{}", fmt::join(entry.files, " "))});
    bytes += entry.bytes;
  }
  return Table(rows) + fmt::format("{} entries, {} bytes\n", entries.size(), bytes);
}

Json EntriesJson(const std::vector<ListedEntry>& entries) {
  Json json = Json::array();
  for (const ListedEntry& entry : entries) {
    json.push_back({{"source", entry.source},
                    {"key", entry.key},
                    {"dtype", entry.dtype},
                    {"shape", entry.shape},
                    {"bytes", entry.bytes},
                    {"files", entry.files}});
  }
  return json;
}

std::vector<CheckOutcome> VerifyPlace(const CheckpointPlace& place, const StartProgress& progress) {
  std::vector<CheckOutcome> outcomes;
  if (place.step) {
    std::error_code error;
    const bool has_manifest = fs::exists(*place.step / kManifestPath, error);
    outcomes.push_back(Outcome(has_manifest ? kManifestPath : "required files",
                               worker::VerifyCheckpoint(*place.step, worker::VerifyLevel::kFull),
                               has_manifest
                                   ? "every file has its size and checksum"
                                   : "no manifest, but all files of a checkpoint are there"));
  }
  for (const fs::path& folder : ShardFolders(place)) {
    uint64_t items = 0;
    const Status verified = [&]() -> Status {
      LR_ASSIGN(DcpDirectory shards, DcpDirectory::Open(folder));
      uint64_t bytes = 0;
      for (const worker::DcpLocation& location : worker::DcpLocations(shards.metadata())) {
        bytes += location.length;
        ++items;
      }
      return shards.VerifyItems(progress("Verifying " + folder.filename().string(), bytes));
    }();
    outcomes.push_back(Outcome(
        Shown(place, folder), verified, fmt::format("structure and checksums of {} items", items)));
  }
  for (const fs::path& file : SafetensorsFiles(place)) {
    const Result<SafetensorsHeader> header = worker::ReadSafetensorsHeader(file);
    outcomes.push_back(
        Outcome(Shown(place, file),
                header.status(),
                fmt::format("header of {} tensors", header.ok() ? header->entries.size() : 0)));
  }
  if (outcomes.empty()) {
    outcomes.push_back({Root(place).string(), false, "no shards, no safetensors file"});
  }
  return outcomes;
}

std::string OutcomesTable(const std::vector<CheckOutcome>& outcomes) {
  std::vector<std::vector<std::string>> rows;
  for (const CheckOutcome& outcome : outcomes) {
    rows.push_back({outcome.is_ok ? "ok" : "DAMAGED", outcome.what, outcome.detail});
  }
  return Table(rows);
}

Json OutcomesJson(const std::vector<CheckOutcome>& outcomes) {
  Json json = Json::array();
  for (const CheckOutcome& outcome : outcomes) {
    json.push_back({{"what", outcome.what}, {"ok", outcome.is_ok}, {"detail", outcome.detail}});
  }
  return json;
}

}  // namespace lr
