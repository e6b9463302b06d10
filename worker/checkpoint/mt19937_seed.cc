#include "worker/checkpoint/mt19937_seed.h"

#include <algorithm>

namespace lr::worker {

Mt19937Words SeedMt19937(uint32_t seed) {
  Mt19937Words words{};
  words[0] = seed;
  for (uint32_t i = 1; i < words.size(); ++i) {
    words[i] = 1812433253U * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
  }
  return words;
}

Mt19937Words SeedMt19937ByArray(const std::vector<uint32_t>& key) {
  constexpr size_t kWords = std::tuple_size_v<Mt19937Words>;
  Mt19937Words words = SeedMt19937(19650218U);
  size_t i = 1;
  const auto next = [&] {
    if (++i >= kWords) {
      words[0] = words[kWords - 1];
      i = 1;
    }
  };
  for (size_t k = 0; k < std::max(kWords, key.size()); ++k) {
    const size_t j = k % key.size();
    words[i] = (words[i] ^ ((words[i - 1] ^ (words[i - 1] >> 30)) * 1664525U)) + key[j] +
               static_cast<uint32_t>(j);
    next();
  }
  for (size_t k = 0; k < kWords - 1; ++k) {
    words[i] = (words[i] ^ ((words[i - 1] ^ (words[i - 1] >> 30)) * 1566083941U)) -
               static_cast<uint32_t>(i);
    next();
  }
  words[0] = 0x80000000U;
  return words;
}

}  // namespace lr::worker
