#pragma once
/// Normalising and its inverse (dataset_and_training_loop.md G.3), shared by training and
/// inference.
///
/// No clamping; statistics take the input's dtype and device; a feature whose type has no mode, or
/// that has no statistics at all, passes unchanged (CheckNormalization() refuses the latter at
/// start-up).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/data/features.h"
#include "worker/data/lerobot_dataset.h"
#include "worker/data/normalization_mode.h"

namespace lr::worker {

/// By feature type word: VISUAL, STATE, ENV, ACTION, REWARD, LANGUAGE.
using NormalizationMap = std::map<std::string, NormalizationMode>;

/// "STATE", "VISUAL", "ENV", "ACTION", "REWARD", "LANGUAGE".
std::string FeatureTypeWord(FeatureType type);

/// What is wrong with these statistics for these features: one error that lists every feature whose
/// mode needs statistics it does not have, with the ones it has.
Status CheckNormalization(const FeatureMap& features,
                          const NormalizationMap& modes,
                          const Statistics& stats);

/// One warning per feature with dimensions of zero range (or zero deviation): any noise on them is
/// blown up.
std::vector<std::string> ConstantDimensions(const FeatureMap& features,
                                            const NormalizationMap& modes,
                                            const Statistics& stats);

class Normalizer {
 public:
  Normalizer(FeatureMap features, NormalizationMap modes, Statistics stats, double eps = 1e-8);

  /// (x - mean) / (std + eps) and its relatives. Fails when the pair of statistics that the mode
  /// needs is incomplete.
  Result<at::Tensor> Normalize(const std::string& key, const at::Tensor& value) const;

  Result<at::Tensor> Unnormalize(const std::string& key, const at::Tensor& value) const;

  const FeatureMap& features() const { return features_; }

  const NormalizationMap& modes() const { return modes_; }

  const Statistics& stats() const { return stats_; }

  double eps() const { return eps_; }

 private:
  struct Pair {
    at::Tensor first;
    at::Tensor second;
  };

  Result<Pair> Statistic(const std::string& key,
                         NormalizationMode mode,
                         const at::Tensor& like) const;

  FeatureMap features_;
  NormalizationMap modes_;
  Statistics stats_;
  double eps_;
  mutable std::map<std::string, Pair>
      prepared_;  ///< by key, dtype and device; filled on first use, one thread
};

}  // namespace lr::worker
