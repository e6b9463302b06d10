#pragma once
/// Ranks as threads for the checkpoint writer, and small contents to save.

#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>

#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/optim/schedule.h"

namespace lr::testing {

/// What the ranks of one fake group share. A rank marked dead makes every later agreement fail on
/// all others.
class FakeRanks {
 public:
  explicit FakeRanks(int size)
      : barrier_(size), texts_(static_cast<size_t>(size)), statuses_(static_cast<size_t>(size)) {}

  int size() const { return static_cast<int>(statuses_.size()); }

  std::string Broadcast(int rank, std::string text) {
    if (rank == 0) {
      text_ = std::move(text);
    }
    barrier_.arrive_and_wait();
    std::string received = text_;
    barrier_.arrive_and_wait();
    return received;
  }

  std::vector<std::string> Gather(int rank, const std::string& text) {
    texts_[static_cast<size_t>(rank)] = text;
    barrier_.arrive_and_wait();
    std::vector<std::string> gathered = texts_;
    barrier_.arrive_and_wait();
    return gathered;
  }

  Status Agree(int rank, const Status& mine) {
    statuses_[static_cast<size_t>(rank)] = mine;
    barrier_.arrive_and_wait();
    Status agreed;
    for (size_t i = 0; i < statuses_.size() && agreed.ok(); ++i) {
      agreed = statuses_[i].WithContext("rank {}", i);
    }
    barrier_.arrive_and_wait();
    return agreed;
  }

 private:
  std::barrier<> barrier_;
  std::string text_;
  std::vector<std::string> texts_;
  std::vector<Status> statuses_;
};

class FakeCheckpointGroup final : public worker::CheckpointGroup {
 public:
  FakeCheckpointGroup(FakeRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}

  int rank() const override { return rank_; }

  int world_size() const override { return ranks_.size(); }

  Result<std::string> BroadcastFromMain(std::string text) override {
    return ranks_.Broadcast(rank_, std::move(text));
  }

  Result<std::vector<std::string>> AllGather(const std::string& text) override {
    return ranks_.Gather(rank_, text);
  }

  Status AgreeAll(const Status& mine) override {
    ++agreements_;
    return ranks_.Agree(
        rank_,
        fail_at_ == agreements_ ? Unavailable("rank {} has a problem of its own", rank_) : mine);
  }

  /// Makes this rank contribute a failure to its `n`-th agreement (1-based).
  void FailAt(int n) { fail_at_ = n; }

 private:
  FakeRanks& ranks_;
  int rank_;
  int agreements_ = 0;
  int fail_at_ = 0;
};

/// Runs `body(group)` on one thread per rank.
inline void RunFakeRanks(int size, const std::function<void(FakeCheckpointGroup&)>& body) {
  FakeRanks ranks(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&ranks, &body, rank] {
      FakeCheckpointGroup group(ranks, rank);
      body(group);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

/// A few small tensors whose values are the step, so that a mixture of two saves is seen.
inline worker::CheckpointSnapshot SmallSnapshot(int64_t step, int64_t elements = 16) {
  worker::CheckpointContents contents;
  contents.step.step = step;
  contents.step.dp_world_size = 1;
  contents.step.batch_size = 2;
  contents.step.grad_accum_steps = 1;
  contents.step.parallelism = worker::SavedTopology{};
  contents.total_steps = 1000;
  contents.config_json = "{\"type\": \"act\"}";
  contents.train_config_json = "{\"seed\": 1000}";
  const auto value = static_cast<double>(step);
  contents.model = worker::NamedTensors{{"a", at::full({elements}, value)},
                                        {"b", at::full({elements, 2}, value)}};
  contents.side_files = {{"policy_preprocessor_step_3_normalizer_processor.safetensors",
                          worker::NamedTensors{{"x.mean", at::full({2}, value)}}},
                         {"policy_preprocessor.json", std::string("{}")}};
  contents.rng = worker::CaptureRngState(worker::PythonRngState::Seeded(1000));
  return worker::TakeSnapshot(std::move(contents));
}

/// The schedule of the recorded run lerobot/single.
inline worker::ScheduleFunction FixtureSchedule() {
  worker::SchedulerConfig config{.type = "cosine_decay_with_warmup"};
  config.num_warmup_steps = 2;
  config.num_decay_steps = 10;
  config.peak_lr = 1e-3;
  config.decay_lr = 1e-4;
  return *worker::MakeSchedule(config, 12);
}

}  // namespace lr::testing
