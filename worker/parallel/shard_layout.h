#pragma once
/// (pure) How a tensor is cut along its first dimension over a shard group, exactly like
/// torch.chunk and FSDP2 (sharded_training.md 1.1): rank s holds rows [s * p, (s + 1) * p) of d0,
/// p = ceil(d0 / degree), so that trailing ranks may hold fewer rows or none, and the shards
/// padded to p rows, one after the other, are the whole tensor followed by padding.

#include <algorithm>
#include <cstdint>

namespace lr::worker {

class ShardLayout {
 public:
  ShardLayout() = default;

  /// `rows` > 0 is the size of the first dimension, `row_numel` the elements of one row.
  ShardLayout(int64_t rows, int64_t row_numel, int64_t degree)
      : rows_(rows), row_numel_(row_numel), degree_(degree) {}

  int64_t rows() const { return rows_; }

  int64_t degree() const { return degree_; }

  int64_t padded_rows() const { return (rows_ + degree_ - 1) / degree_; }

  int64_t FirstRow(int64_t rank) const { return std::min(rows_, rank * padded_rows()); }

  int64_t RowsOf(int64_t rank) const { return FirstRow(rank + 1) - FirstRow(rank); }

  int64_t numel() const { return rows_ * row_numel_; }

  /// Elements of every rank's padded shard.
  int64_t padded_numel() const { return padded_rows() * row_numel_; }

  /// Elements of this rank's shard without padding.
  int64_t NumelOf(int64_t rank) const { return RowsOf(rank) * row_numel_; }

 private:
  int64_t rows_ = 0;
  int64_t row_numel_ = 0;
  int64_t degree_ = 1;
};

}  // namespace lr::worker
