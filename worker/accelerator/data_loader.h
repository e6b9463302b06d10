#pragma once
/// How a loader's batches reach the processes (dataset_and_training_loop.md F.2): batch j goes to
/// rank j mod W; a short or missing batch of the last round is completed with the first rows of the
/// epoch, so that every rank makes the same number of passes with full batches. One process:
/// nothing is completed. With split batches each one is cut into W parts instead.
///
/// A loader is a range of batches, a batch anything that VisitTensors knows (tensor_visitor.h). A
/// range that can be indexed is read only where this rank needs it: std::views::iota | transform
/// loads lazily. Any other range, torch's loaders among them, is read in full by every rank.
/// Completion joins tensors along dim 0; what is no tensor with rows stays as it is.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "worker/parallel/tensor_visitor.h"

namespace lr::worker {

/// This process among those that share a loader.
struct DealRule {
  int rank = 0;
  int size = 1;
  bool splits_batches = false;
};

/// What a running loop knows of the batch at hand.
struct LoaderProgress {
  bool is_at_end = false;  ///< it is the last one of this rank's pass
  int64_t rows = 0;
  int64_t real_rows = 0;  ///< the first ones; the others complete the batch
};

/// Keeps a loop's progress among `open` while it lives. Nested loops end in reverse.
class LoaderScope {
 public:
  explicit LoaderScope(std::vector<const LoaderProgress*>& open);
  ~LoaderScope();
  LoaderScope(LoaderScope&&) = default;
  LoaderScope& operator=(LoaderScope&&) = delete;

  LoaderProgress& progress() { return *progress_; }

 private:
  std::vector<const LoaderProgress*>* open_;
  std::unique_ptr<LoaderProgress> progress_;
};

using BatchTensors = std::vector<at::Tensor*>;

/// Of the first tensor that has rows; 0: there is none.
int64_t RowsOf(const BatchTensors& batch);

/// `count` rows of the batches `first` in a row, from row `begin` on, beginning anew at their end;
/// in place of those of `batch`, or behind them.
void TakeRows(const BatchTensors& batch,
              const std::vector<BatchTensors>& first,
              int64_t begin,
              int64_t count);
void AppendRows(const BatchTensors& batch,
                const std::vector<BatchTensors>& first,
                int64_t begin,
                int64_t count);

/// Keeps this rank's part of the rows; an error when they do not divide by the number of ranks.
void KeepPart(const BatchTensors& batch, const DealRule& rule);

void MoveTo(const BatchTensors& batch, c10::Device device);

template <typename Batch>
struct DealtBatch {
  Batch batch;
  int64_t rows = 0;
  int64_t real_rows = 0;
};

/// One pass of one rank over a loader.
template <typename Loader>
class DealtPass {
 public:
  using Iterator = decltype(std::begin(std::declval<Loader&>()));
  using Sentinel = decltype(std::end(std::declval<Loader&>()));
  using Batch = std::remove_cvref_t<decltype(*std::declval<Iterator&>())>;

  DealtPass(Loader& loader, const DealRule& rule)
      : rule_(rule),
        round_size_(rule.splits_batches ? 1 : rule.size),
        place_(rule.splits_batches ? 0 : rule.rank),
        begin_(std::begin(loader)),
        at_(begin_),
        end_(std::end(loader)) {}

  /// nullopt: the pass is over, on all ranks at the same call.
  std::optional<DealtBatch<Batch>> Next() {
    Round round = ReadRound();
    if (round.present == 0) {
      return std::nullopt;
    }
    DealtBatch<Batch> dealt{round.own ? std::move(*round.own) : First().front(), 0, 0};
    const BatchTensors tensors = TensorsIn(dealt.batch);
    dealt.rows = dealt.real_rows = RowsOf(tensors);
    if (rule_.size > 1) {
      Complete(round, tensors, dealt);
    }
    return dealt;
  }

 private:
  static constexpr bool kIsIndexed =
      std::random_access_iterator<Iterator> && std::sized_sentinel_for<Sentinel, Iterator>;

  /// The batches dealt in one go.
  struct Round {
    int64_t present = 0;
    std::optional<Batch> own;
    int64_t last_rows = 0;  ///< of the last one present; known where `own` is missing
  };

  Round ReadRound() {
    Round round;
    if constexpr (kIsIndexed) {
      round.present = std::min<int64_t>(round_size_, end_ - at_);
      if (place_ < round.present) {
        round.own.emplace(*(at_ + place_));
      } else if (round.present > 0) {
        Batch last = *(at_ + (round.present - 1));
        round.last_rows = RowsOf(TensorsIn(last));
      }
      at_ += round.present;
    } else {
      for (; round.present < round_size_ && at_ != end_; ++at_, ++round.present) {
        Batch batch = *at_;
        round.last_rows = RowsOf(TensorsIn(batch));
        if (rule_.size > 1 && static_cast<int64_t>(first_.size()) < round_size_) {
          first_.push_back(batch);
        }
        if (round.present == place_) {
          round.own.emplace(std::move(batch));
        }
      }
    }
    return round;
  }

  void Complete(const Round& round, const BatchTensors& tensors, DealtBatch<Batch>& dealt) {
    const bool is_mine = place_ < round.present;
    const bool is_last = is_mine && place_ == round.present - 1 && !(at_ != end_);
    if (!is_mine || is_last) {
      std::vector<BatchTensors> first;
      for (Batch& batch : First()) {
        first.push_back(TensorsIn(batch));
      }
      const int64_t full = RowsOf(first.front());
      if (!is_mine) {
        TakeRows(tensors, first, full - round.last_rows + (place_ - round.present) * full, full);
        dealt.real_rows = 0;
      } else if (dealt.rows < full) {
        AppendRows(tensors, first, 0, full - dealt.rows);
      }
    }
    if (rule_.splits_batches) {
      KeepPart(tensors, rule_);
    }
    dealt.rows = RowsOf(tensors);
    const int64_t before = rule_.splits_batches ? rule_.rank * dealt.rows : 0;
    dealt.real_rows = std::clamp<int64_t>(dealt.real_rows - before, 0, dealt.rows);
  }

  /// The batches of the epoch's first round.
  std::vector<Batch>& First() {
    if constexpr (kIsIndexed) {
      const int64_t count = std::min<int64_t>(round_size_, end_ - begin_);
      for (auto i = static_cast<int64_t>(first_.size()); i < count; ++i) {
        first_.push_back(*(begin_ + i));
      }
    }
    return first_;
  }

  DealRule rule_;
  int64_t round_size_;
  int64_t place_;
  Iterator begin_;
  Iterator at_;
  Sentinel end_;
  std::vector<Batch> first_;
};

}  // namespace lr::worker
