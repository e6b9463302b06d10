#pragma once
/// (pure) The two ways in which Python seeds a Mersenne Twister (Matsumoto and Nishimura 1998,
/// mt19937ar): needed to hand Python plausible generator states.

#include <array>
#include <cstdint>
#include <vector>

namespace lr::worker {

using Mt19937Words = std::array<uint32_t, 624>;

/// init_genrand: numpy.random.seed(seed).
Mt19937Words SeedMt19937(uint32_t seed);

/// init_by_array: random.seed(seed), with the seed's 32-bit digits, lowest first.
Mt19937Words SeedMt19937ByArray(const std::vector<uint32_t>& key);

}  // namespace lr::worker
