#pragma once
/// What a checkpoint holds, and whether it is undamaged: --list and --verify. Reading only; main
/// thread, blocking.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"
#include "tools/lr_convert_dcp/checkpoint_place.h"
#include "tools/lr_convert_dcp/merged_file.h"

namespace lr {

/// A tensor or value of the checkpoint.
struct ListedEntry {
  std::string source;  ///< path of the file or shard folder, relative to the checkpoint
  std::string key;
  std::string dtype;  ///< F32, torch.float32, …; "value" for what is no tensor
  std::vector<int64_t> shape;
  uint64_t bytes = 0;              ///< of the tensor, not of its archive
  std::vector<std::string> files;  ///< shard files with a block of it
};

/// Model and optimizer shards and every safetensors file, in this order. Only headers are read.
Result<std::vector<ListedEntry>> ListEntries(const CheckpointPlace& place);

std::string EntriesTable(const std::vector<ListedEntry>& entries);
Json EntriesJson(const std::vector<ListedEntry>& entries);

struct CheckOutcome {
  std::string what;  ///< a file, a folder, the manifest
  bool is_ok = false;
  std::string detail;  ///< what was compared, or what is wrong
};

/// The manifest's sizes and checksums (or, without one, the files that a checkpoint must have),
/// both shard folders with every item's checksums, every safetensors header. All of them are
/// checked, also when one fails.
std::vector<CheckOutcome> VerifyPlace(const CheckpointPlace& place, const StartProgress& progress);

std::string OutcomesTable(const std::vector<CheckOutcome>& outcomes);
Json OutcomesJson(const std::vector<CheckOutcome>& outcomes);

}  // namespace lr
