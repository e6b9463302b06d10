/// SeedSequence and MT19937 permutation, see the header for sources. Pure.
#include "worker/data/epoch_order.h"

#include <array>
#include <numeric>
#include <random>
#include <utility>

#include "common/base/check.h"

namespace lr::worker {

namespace {

/// NumPy's SeedSequence: entropy words are hashed into a pool of four words, output words are
/// hashed out of it.
class SeedPool {
 public:
  explicit SeedPool(const std::vector<uint32_t>& entropy) {
    for (size_t i = 0; i < pool_.size(); ++i) {
      pool_[i] = HashMix(i < entropy.size() ? entropy[i] : 0);
    }
    for (size_t source = 0; source < pool_.size(); ++source) {
      for (size_t target = 0; target < pool_.size(); ++target) {
        if (source != target) {
          pool_[target] = Mix(pool_[target], HashMix(pool_[source]));
        }
      }
    }
    for (size_t i = pool_.size(); i < entropy.size(); ++i) {
      for (uint32_t& word : pool_) {
        word = Mix(word, HashMix(entropy[i]));
      }
    }
  }

  uint64_t FirstWord64() const {
    uint32_t hash = 0x8b51f9dd;
    std::array<uint32_t, 2> words = {};
    for (size_t i = 0; i < words.size(); ++i) {
      uint32_t value = pool_[i] ^ hash;
      hash *= 0x58f38ded;
      value *= hash;
      words[i] = value ^ (value >> 16);
    }
    return words[0] | (static_cast<uint64_t>(words[1]) << 32);
  }

 private:
  uint32_t HashMix(uint32_t value) {
    value ^= hash_;
    hash_ *= 0x931e8875;
    value *= hash_;
    return value ^ (value >> 16);
  }

  static uint32_t Mix(uint32_t x, uint32_t y) {
    const uint32_t mixed = 0xca01f9dd * x - 0x4973f715 * y;
    return mixed ^ (mixed >> 16);
  }

  uint32_t hash_ = 0x43b0d7e5;
  std::array<uint32_t, 4> pool_ = {};
};

void AppendWords(uint64_t number, std::vector<uint32_t>& words) {
  words.push_back(static_cast<uint32_t>(number));
  if (number >> 32 != 0) {
    words.push_back(static_cast<uint32_t>(number >> 32));
  }
}

}  // namespace

uint64_t EpochSeed(uint64_t seed, uint64_t epoch) {
  std::vector<uint32_t> entropy;
  AppendWords(seed, entropy);
  AppendWords(epoch, entropy);
  return SeedPool(entropy).FirstWord64();
}

std::vector<uint32_t> Permutation(uint64_t seed, int64_t n) {
  LR_CHECK(n >= 0 && n <= kMaxPermutation, "permutation of {} elements", n);
  std::mt19937 generator(static_cast<uint32_t>(seed));  // torch keeps the low 32 bits
  std::vector<uint32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0U);
  for (int64_t i = 0; i < n - 1; ++i) {
    const int64_t other = i + static_cast<int64_t>(generator() % static_cast<uint32_t>(n - i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
  }
  return order;
}

}  // namespace lr::worker
