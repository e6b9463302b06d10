#pragma once
/// (pure) The order of one epoch: a permutation that depends on seed and epoch only, equal to the
/// reference's.
///
/// Source: NumPy's SeedSequence (pool mixing after O'Neill's seed_seq replacement) for the epoch
/// seed, and torch.randperm on a CPU generator (MT19937, Fisher-Yates with 32-bit draws). Checked
/// against recorded vectors.

#include <cstdint>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// torch.randperm switches to another algorithm from here on; such datasets are refused.
inline constexpr int64_t kMaxPermutation = 214748364;  // floor(2^32 / 20)

/// First 64-bit word of NumPy's SeedSequence([seed, epoch]).
uint64_t EpochSeed(uint64_t seed, uint64_t epoch);

/// torch.randperm(n) with a CPU generator seeded with `seed`. `n` must not exceed kMaxPermutation.
std::vector<uint32_t> Permutation(uint64_t seed, int64_t n);

}  // namespace lr::worker
