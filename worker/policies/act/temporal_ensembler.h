#pragma once
/// Averages the overlapping action chunks of consecutive predictions (Zhao et al. 2023, algorithm
/// 2).

#include <ATen/core/Tensor.h>

namespace lr::worker {

/// Weights w_i = exp(-coefficient * i), 0 being the oldest prediction of a moment: a positive
/// coefficient favours old ones, 0 is a plain mean. Keeps a running mean, so that its memory is one
/// chunk. Thread: one caller at a time.
class TemporalEnsembler {
 public:
  TemporalEnsembler(double coefficient, int64_t chunk_size);

  /// Forgets the episode.
  void Reset();

  /// Takes the newest chunk [B, T, A] and gives the action of this moment, [B, A].
  at::Tensor Update(const at::Tensor& chunk);

 private:
  const int64_t chunk_size_;
  at::Tensor weights_;     ///< [T]
  at::Tensor cumulative_;  ///< [T]
  at::Tensor
      actions_;  ///< [B, <= T, A] means of the moments to come; undefined before the first chunk
  at::Tensor counts_;  ///< [<= T, 1] predictions in each mean
};

}  // namespace lr::worker
