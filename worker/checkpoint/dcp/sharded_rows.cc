// See the header.
#include "worker/checkpoint/dcp/sharded_rows.h"

#include <fmt/ranges.h>

namespace lr::worker {

DcpRows RowsOf(const ShardedParameter& parameter, const DcpPlace& place) {
  const int64_t rows = parameter.full_shape.empty() ? 1 : parameter.full_shape[0];
  return parameter.is_sharded ? RowsOfShard(rows, place.shard_rank, place.shard_size)
                              : DcpRows{0, rows};
}

Status CheckStoredShape(const DcpMetadata& metadata,
                        const std::string& key,
                        const ShardedParameter& parameter,
                        const DcpPlace& place) {
  const std::vector<int64_t>& stored = metadata.tensors.at(key).size;
  if (stored != parameter.full_shape) {
    return InvalidArgument("'{}' has shape [{}] in the checkpoint, [{}] here",
                           key,
                           fmt::join(stored, ", "),
                           fmt::join(parameter.full_shape, ", "));
  }
  std::vector<int64_t> expected = stored;
  if (!expected.empty()) {
    expected[0] = RowsOf(parameter, place).count;
  }
  if (parameter.shard.sizes() != c10::IntArrayRef(expected)) {
    return InvalidArgument("the shard of '{}' has shape [{}], [{}] is its part",
                           key,
                           fmt::join(parameter.shard.sizes(), ", "),
                           fmt::join(expected, ", "));
  }
  return {};
}

}  // namespace lr::worker
