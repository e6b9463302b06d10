// What a rank of a sharded run holds, by a counting allocator (sharded_training.md 9.4): state at
// rest, the peak of a pass, and what reshard_after_forward and cpu_offload change.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include "tests/worker/accelerator/rank_accelerators.h"
#include "worker/parallel/sharded_engine.h"
#include "worker/parallel/unit_module.h"

namespace lr {
namespace {

using ::lr::testing::Layout;
using ::lr::testing::RunAccelerators;

constexpr int64_t kWidth = 192;
constexpr int64_t kBlocks = 12;
constexpr int64_t kUnit = 4 * kWidth * (kWidth + 1);  ///< bytes of a block's parameters
constexpr int64_t kRoot = 4 * (kWidth + 1);           ///< of the head

/// Bytes of tensors by the thread that made them, which is the rank; whoever frees them.
struct Count {
  std::atomic<int64_t> live = 0;
  std::atomic<int64_t> peak = 0;

  void Add(int64_t bytes) {
    const int64_t now = live += bytes;
    int64_t seen = peak;
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
  }

  int64_t PeakFrom(int64_t before) const { return peak - before; }
};

thread_local Count* counted = nullptr;

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{std::aligned_alloc(64, (bytes + 63) / 64 * 64), bytes, counted};
    if (block->owner != nullptr) {
      block->owner->Add(static_cast<int64_t>(bytes));
    }
    return {block->data, block, &Free, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
    Count* owner;
  };

  static void Free(void* context) {
    auto* block = static_cast<Block*>(context);
    if (block->owner != nullptr) {
      block->owner->live -= static_cast<int64_t>(block->bytes);
    }
    std::free(block->data);
    delete block;
  }
};

class BlockImpl : public worker::UnitModule {
 public:
  BlockImpl() : UnitModule("Block") {
    linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
  }

  at::Tensor forward(const at::Tensor& x) {
    return CallAsUnit([this](const at::Tensor& in) { return at::tanh(linear(in)); }, x);
  }

  torch::nn::Linear linear{nullptr};
};

TORCH_MODULE(Block);

class ChainImpl : public torch::nn::Module {
 public:
  ChainImpl() {
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
    }
    head = register_module("head", torch::nn::Linear(kWidth, 1));
  }

  at::Tensor forward(at::Tensor x) {
    for (Block& block : blocks) {
      x = block->forward(x);
    }
    return head(x);
  }

  std::vector<Block> blocks;
  torch::nn::Linear head{nullptr};
};

/// Bytes of rank 0, beside activations (one row): the least of several updates, because Gloo's
/// threads let go of a buffer some time after it was waited for.
struct Use {
  int64_t state = kUnknown;    ///< parameters and optimizer state, between updates
  int64_t at_rest = kUnknown;  ///< the same with gradients, behind a backward
  int64_t after_forward = kUnknown;
  int64_t forward_peak = kUnknown;
  int64_t backward_peak = kUnknown;

  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
};

Use Measure(int world, int shard, bool reshard = true, bool offload = false) {
  static CountingAllocator allocator;
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&allocator, /*priority=*/100); });
  worker::EngineOptions options = Layout(world, shard);
  options.fsdp.reshard_after_forward = reshard;
  options.fsdp.cpu_offload = offload;
  std::vector<Count> counts(static_cast<size_t>(world));
  Use use;
  RunAccelerators(options, [&](Accelerator& accelerator) {
    Count& count = counts[static_cast<size_t>(accelerator.process_index())];
    counted = &count;
    const auto note = [&](int64_t& least, int64_t bytes) {
      if (accelerator.is_main_process()) {
        least = std::min(least, bytes);
      }
    };
    {
      const auto net = std::make_shared<ChainImpl>();
      torch::optim::AdamW adamw(net->parameters());
      auto [model, optimizer] = accelerator.prepare(net, adamw);
      const at::Tensor row = at::ones({1, kWidth});
      const auto update = [&](Use& seen) {
        note(seen.state, count.live);
        count.peak = count.live.load();
        at::Tensor loss = model(row).square().mean();
        note(seen.forward_peak, count.peak);
        note(seen.after_forward, count.live);
        count.peak = count.live.load();
        accelerator.backward(loss);
        loss.reset();
        note(seen.backward_peak, count.peak);
        note(seen.at_rest, count.live);
        optimizer.step();
        optimizer.zero_grad();
      };
      Use first;  // there is no optimizer state yet
      update(first);
      for (int i = 0; i < 10; ++i) {
        update(use);
      }
    }
    counted = nullptr;
  });
  return use;
}

/// Rows of the blocks divide by the ranks, the head's do not: its row lies on rank 0.
int64_t Theory(int shard) {
  return 16 * ((kBlocks * kUnit / 4) / shard + kRoot / 4);
}

TEST(MemoryTest, StateAtRestIsTheRanksShare) {
  for (const int shard : {1, 2, 4}) {
    const Use use = Measure(shard, shard);
    EXPECT_LE(static_cast<double>(use.at_rest), 1.05 * static_cast<double>(Theory(shard) + kUnit));
    EXPECT_GE(use.at_rest, Theory(shard));
    std::printf("%d shards: state %.3f of theory\n",
                shard,
                static_cast<double>(use.at_rest) / static_cast<double>(Theory(shard)));
  }
  const Use hsdp = Measure(4, 2);
  EXPECT_LE(static_cast<double>(hsdp.at_rest), 1.05 * static_cast<double>(Theory(2) + kUnit));
}

TEST(MemoryTest, APassHoldsFewUnitsUnlessTheyShallStay) {
  const Use use = Measure(2, 2);
  const Use stays = Measure(2, 2, /*reshard=*/false);
  const auto units = [](const Use& of, int64_t bytes) {
    return static_cast<double>(bytes - of.state) / static_cast<double>(kUnit);
  };
  std::printf(
      "units above the state, reshard / stay: forward peak %.2f / %.2f, after forward %.2f / "
      "%.2f, backward peak %.2f / %.2f\n",
      units(use, use.forward_peak),
      units(stays, stays.forward_peak),
      units(use, use.after_forward),
      units(stays, stays.after_forward),
      units(use, use.backward_peak),
      units(stays, stays.backward_peak));
  EXPECT_LT(units(use, use.after_forward), 0.1);
  // The unit that runs, the buffer of the next one, Gloo's own copy of that; on a busy machine also
  // one that its threads have not let go of in any of the updates.
  EXPECT_LT(units(use, use.forward_peak), 5.0);
  // Over the shards of the gradients: also the unit's gradients and two reductions in flight.
  EXPECT_LT(units(use, use.backward_peak), static_cast<double>(kBlocks) / 2 + 9.0);
  EXPECT_NEAR(units(stays, stays.after_forward), static_cast<double>(kBlocks), 0.1);
}

TEST(MemoryTest, OnTheCpuOffloadChangesNothing) {
  const Use use = Measure(2, 2);
  const Use offloaded = Measure(2, 2, true, /*offload=*/true);
  EXPECT_EQ(offloaded.at_rest, use.at_rest);
  EXPECT_EQ(offloaded.after_forward, use.after_forward);
}

}  // namespace
}  // namespace lr
