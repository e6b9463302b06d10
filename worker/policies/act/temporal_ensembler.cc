// The running weighted mean over chunks, in the reference's order of operations. Cannot fail on
// well-shaped chunks.
#include "worker/policies/act/temporal_ensembler.h"

#include <ATen/ATen.h>

namespace lr::worker {

TemporalEnsembler::TemporalEnsembler(double coefficient, int64_t chunk_size)
    : chunk_size_(chunk_size),
      weights_(at::exp(at::arange(chunk_size) * -coefficient)),
      cumulative_(weights_.cumsum(0)) {}

void TemporalEnsembler::Reset() {
  actions_.reset();
  counts_.reset();
}

at::Tensor TemporalEnsembler::Update(const at::Tensor& chunk) {
  using at::indexing::None;
  using at::indexing::Slice;
  weights_ = weights_.to(chunk.device());
  cumulative_ = cumulative_.to(chunk.device());
  if (!actions_.defined()) {
    actions_ = chunk.clone();
    counts_ = at::ones({chunk_size_, 1}, chunk.options().dtype(at::kLong));
  } else {
    const at::Tensor known = chunk.slice(1, 0, chunk_size_ - 1);
    const at::Tensor sum =
        actions_ * cumulative_.index({counts_ - 1}) + known * weights_.index({counts_});
    actions_ = at::cat({sum / cumulative_.index({counts_}), chunk.slice(1, chunk_size_ - 1)}, 1);
    counts_ =
        at::cat({(counts_ + 1).clamp_max(chunk_size_), at::ones_like(counts_.slice(0, 0, 1))});
  }
  const at::Tensor now = actions_.select(1, 0);
  actions_ = actions_.slice(1, 1);
  counts_ = counts_.slice(0, 1);
  return now;
}

}  // namespace lr::worker
