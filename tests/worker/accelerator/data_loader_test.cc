// Dealing batches: against the closed form of dataset_and_training_loop.md F.2, over ranges that
// can be indexed and ranges that cannot.
#include "worker/accelerator/data_loader.h"

#include <list>
#include <map>
#include <ranges>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worker/accelerator/error.h"

namespace lr::worker {
namespace {

/// Rows `begin` … `end` - 1 as [n, 1] and their number as a word that is no tensor.
struct Rows {
  at::Tensor value;
  std::string word;
};

template <typename Visitor>
void VisitTensors(Rows& rows, Visitor&& visit) {
  visit(rows.value);
}

std::vector<Rows> MakeBatches(int64_t positions, int64_t batch_size) {
  std::vector<Rows> batches;
  for (int64_t begin = 0; begin < positions; begin += batch_size) {
    const int64_t end = std::min(begin + batch_size, positions);
    batches.push_back({at::arange(begin, end).unsqueeze(1), "b"});
  }
  return batches;
}

struct Passed {
  std::vector<int64_t> rows;
  std::vector<int64_t> real;  ///< the same, without completion
  bool operator==(const Passed&) const = default;
};

template <typename Loader>
std::vector<Passed> Deal(Loader& loader, const DealRule& rule) {
  DealtPass<Loader> pass(loader, rule);
  std::vector<Passed> passes;
  while (auto dealt = pass.Next()) {
    Passed& passed = passes.emplace_back();
    const at::Tensor flat = dealt->batch.value.flatten().contiguous();
    passed.rows.assign(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel());
    passed.real.assign(passed.rows.begin(), passed.rows.begin() + dealt->real_rows);
    EXPECT_EQ(dealt->rows, flat.numel());
  }
  return passes;
}

/// perm[((k * W + r) * B + i) mod N], for ceil(ceil(N / B) / W) batches.
std::vector<Passed> ClosedForm(int64_t positions, int64_t batch_size, const DealRule& rule) {
  std::vector<Passed> passes;
  const int64_t batches = (positions + batch_size - 1) / batch_size;
  for (int64_t k = 0; k < (batches + rule.size - 1) / rule.size; ++k) {
    Passed& passed = passes.emplace_back();
    for (int64_t i = 0; i < batch_size; ++i) {
      const int64_t place = (k * rule.size + rule.rank) * batch_size + i;
      passed.rows.push_back(place % positions);
      if (place < positions) {
        passed.real.push_back(place);
      }
    }
  }
  return passes;
}

TEST(DataLoaderTest, DealsWholeBatchesAndCompletesTheLastRound) {
  for (int64_t positions = 1; positions < 30; ++positions) {
    for (int64_t batch_size = 1; batch_size <= std::min<int64_t>(positions, 5); ++batch_size) {
      std::vector<Rows> indexed = MakeBatches(positions, batch_size);
      std::list<Rows> streamed(indexed.begin(), indexed.end());
      for (int size = 2; size < 6; ++size) {
        for (int rank = 0; rank < size; ++rank) {
          const DealRule rule{rank, size};
          const std::vector<Passed> expected = ClosedForm(positions, batch_size, rule);
          ASSERT_EQ(Deal(indexed, rule), expected)
              << positions << " rows by " << batch_size << ", rank " << rank << " of " << size;
          ASSERT_EQ(Deal(streamed, rule), expected);
        }
      }
    }
  }
}

TEST(DataLoaderTest, OneProcessKeepsItsShortBatch) {
  std::vector<Rows> batches = MakeBatches(7, 3);
  const std::vector<Passed> passes = Deal(batches, {});
  ASSERT_EQ(passes.size(), 3);
  EXPECT_EQ(passes[2].rows, std::vector<int64_t>{6});
}

TEST(DataLoaderTest, SplitsBatches) {
  std::vector<Rows> batches = MakeBatches(10, 4);
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<Passed> passes = Deal(batches, {rank, 2, true});
    ASSERT_EQ(passes.size(), 3);
    EXPECT_EQ(passes[1].rows, (std::vector<int64_t>{4 + 2 * rank, 5 + 2 * rank}));
    EXPECT_EQ(passes[2].rows,
              rank == 0 ? (std::vector<int64_t>{8, 9}) : (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(passes[2].real.size(), rank == 0 ? 2 : 0);
  }
  try {
    Deal(batches, {0, 3, true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("4 rows cannot be cut over 3"), std::string::npos);
  }
}

TEST(DataLoaderTest, ALazyRangeIsReadOnlyWhereItIsNeeded) {
  std::map<int, int> reads;
  auto lazy = std::views::iota(0, 8) | std::views::transform([&](int j) {
                ++reads[j];
                return at::full({2}, j);
              });
  DealtPass<decltype(lazy)> pass(lazy, {.rank = 1, .size = 4});
  ASSERT_EQ(pass.Next()->batch[0].item<int>(), 1);
  ASSERT_EQ(pass.Next()->batch[0].item<int>(), 5);
  ASSERT_FALSE(pass.Next());
  EXPECT_EQ(reads, (std::map<int, int>{{1, 1}, {5, 1}}));
}

TEST(DataLoaderTest, LoopsWithinLoopsKeepTheirProgressApart) {
  std::vector<const LoaderProgress*> open;
  LoaderScope outer(open);
  outer.progress().rows = 3;
  {
    LoaderScope inner(open);
    EXPECT_EQ(open.back(), &inner.progress());
  }
  ASSERT_EQ(open.size(), 1);
  EXPECT_EQ(open.back()->rows, 3);
}

}  // namespace
}  // namespace lr::worker
