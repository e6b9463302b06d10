// `model.<name>`: writing and reading.
#include <algorithm>
#include <set>

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "worker/checkpoint/dcp/dcp_tensor.h"
#include "worker/checkpoint/dcp/sharded_rows.h"
#include "worker/checkpoint/dcp/sharded_state.h"

namespace lr::worker {
namespace {

constexpr char kModel[] = "model";

std::string KeyOf(const std::string& name) {
  return fmt::format("{}.{}", kModel, name);
}

/// Which key a parameter is read from: the first of its names that is there.
Result<std::vector<std::string>> FindKeys(const DcpMetadata& metadata,
                                          const std::vector<ShardedParameter>& parameters) {
  std::vector<std::string> keys;
  std::vector<std::string> missing;
  for (const ShardedParameter& parameter : parameters) {
    const auto found =
        std::find_if(parameter.names.begin(), parameter.names.end(), [&](const std::string& name) {
          return metadata.tensors.contains(KeyOf(name));
        });
    if (found == parameter.names.end()) {
      missing.push_back(KeyOf(parameter.names[0]));
    } else {
      keys.push_back(KeyOf(*found));
    }
  }
  if (!missing.empty()) {
    return NotFound("the checkpoint lacks {} tensors of the model: {}",
                    missing.size(),
                    fmt::join(missing, ", "));
  }
  return keys;
}

std::vector<std::string> UnusedKeys(const DcpMetadata& metadata,
                                    const std::vector<ShardedParameter>& parameters) {
  std::set<std::string> unused;
  for (const auto& [key, tensor] : metadata.tensors) {
    unused.insert(key);
  }
  for (const ShardedParameter& parameter : parameters) {
    for (const std::string& name : parameter.names) {
      unused.erase(KeyOf(name));
    }
  }
  return {unused.begin(), unused.end()};
}

}  // namespace

std::vector<DcpEntry> ModelEntries(const std::vector<ShardedParameter>& parameters) {
  std::vector<DcpEntry> entries;
  for (const ShardedParameter& parameter : parameters) {
    for (const std::string& name : parameter.names) {
      entries.push_back({KeyOf(name),
                         {std::string(kModel), name},
                         parameter.shard,
                         parameter.full_shape,
                         parameter.is_sharded});
    }
  }
  return entries;
}

Result<std::vector<std::string>> LoadModelEntries(DcpDirectory& directory,
                                                  const std::vector<ShardedParameter>& parameters,
                                                  const DcpPlace& place) {
  LR_ASSIGN(const std::vector<std::string> keys, FindKeys(directory.metadata(), parameters));
  for (size_t i = 0; i < parameters.size(); ++i) {
    LR_TRY(CheckStoredShape(directory.metadata(), keys[i], parameters[i], place));
  }
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    LR_ASSIGN(const at::Tensor rows, ReadDcpRows(directory, keys[i], RowsOf(parameters[i], place)));
    parameters[i].shard.detach().copy_(rows);
  }
  std::vector<std::string> notes = directory.notes();
  if (const auto unused = UnusedKeys(directory.metadata(), parameters); !unused.empty()) {
    notes.push_back(fmt::format("the model has no place for {} tensors of the checkpoint: {}",
                                unused.size(),
                                fmt::join(unused, ", ")));
  }
  return notes;
}

}  // namespace lr::worker
