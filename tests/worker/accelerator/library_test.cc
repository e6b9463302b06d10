// The library face: what a user's own loop says to lr::Accelerator, in every layout, with
// LibTorch's own optimizers, schedules and loaders.
#include <atomic>
#include <cmath>
#include <mutex>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/stack.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/accelerator/rank_accelerators.h"
#include "tests/worker/parallel/fsdp_net.h"
#include "worker/accelerator/include/lr/accelerator.h"
#include "worker/accelerator/status_error.h"
#include "worker/optim/grad_scaler.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/schedule.h"
#include "worker/parallel/sharded_engine.h"

namespace lr {
namespace {

using ::lr::testing::Layout;
using ::lr::testing::RunAccelerators;
using ::testing::HasSubstr;
using worker::testing::MakeNet;
using worker::testing::NetImpl;

using State = std::map<std::string, at::Tensor>;

/// Layouts of four ranks or fewer, by name for the messages.
struct Case {
  const char* name;
  int world;
  int shard;  ///< 0: no sharded engine
};

constexpr Case kLayouts[] = {
    {"plain", 1, 0}, {"ddp", 2, 0}, {"fsdp of one", 1, 1}, {"fsdp", 2, 2}, {"hsdp", 4, 2}};

std::string TextOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const c10::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Twelve rows [2, 7] of step 0.
const at::Tensor& AllRows() {
  static const at::Tensor rows = worker::testing::LoadNumbers("data.safetensors").at("x")[0];
  return rows;
}

/// Twenty-four of them.
at::Tensor MoreRows() {
  const at::Tensor steps = worker::testing::LoadNumbers("data.safetensors").at("x");
  return at::cat({steps[0], steps[1]});
}

State Weights(const torch::nn::Module& module) {
  State state;
  for (const auto& item : module.named_parameters()) {
    state[item.key()] = item.value().detach().clone();
  }
  return state;
}

void ExpectClose(const State& a, const State& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, value] : a) {
    EXPECT_TRUE(at::allclose(value, b.at(name), 1e-5, 1e-6)) << what << ": " << name;
  }
}

torch::optim::SGD MakeSgd(NetImpl& net, double lr = 0.1) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(lr).momentum(0.9));
}

/// Two epochs over the rows, `rows` at once, as one process does it.
State PlainTraining(int64_t rows) {
  const auto net = MakeNet();
  torch::optim::SGD sgd = MakeSgd(*net);
  torch::optim::StepLR schedule(sgd, 2, 0.5);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const at::Tensor& batch : MoreRows().split(rows)) {
      net->forward(batch).square().mean().backward();
      torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1);
      sgd.step();
      schedule.step();
      sgd.zero_grad();
    }
  }
  return Weights(*net);
}

TEST(LibraryTest, APortedLoopTrainsTheSameInEveryLayout) {
  for (const Case& layout : kLayouts) {
    const int64_t accumulation = layout.world == 4 ? 1 : 2;
    const State expected = PlainTraining(2 * layout.world * accumulation);
    RunAccelerators(Layout(layout.world, layout.shard, accumulation),
                    [&](Accelerator& accelerator) {
                      const auto net = MakeNet();
                      torch::optim::SGD sgd = MakeSgd(*net);
                      torch::optim::StepLR steps(sgd, 2 * layout.world, 0.5);
                      std::vector<at::Tensor> batches = MoreRows().split(2);
                      auto loader = accelerator.prepare_data_loader(batches);
                      auto [model, optimizer, schedule] = accelerator.prepare(net, sgd, steps);
                      for (int epoch = 0; epoch < 2; ++epoch) {
                        for (at::Tensor& batch : loader) {
                          const auto pass = accelerator.accumulate(model);
                          accelerator.backward(model(batch).square().mean());
                          accelerator.clip_grad_norm_(model->parameters(), 0.1);
                          optimizer.step();
                          schedule.step();
                          optimizer.zero_grad();
                        }
                      }
                      ExpectClose(accelerator.get_state_dict(model), expected, layout.name);
                    });
  }
}

TEST(LibraryTest, GivesBackInOrderAndLeavesTheRestAlone) {
  RunAccelerators(Layout(1, 1), [](Accelerator& accelerator) {
    const auto net = MakeNet();
    torch::optim::SGD sgd = MakeSgd(*net);
    torch::optim::StepLR steps(sgd, 1, 0.5);
    std::vector<int> untouched = {1, 2};
    auto prepared = accelerator.prepare(steps, sgd, untouched, net, std::string("word"));
    static_assert(std::is_same_v<decltype(prepared),
                                 std::tuple<AcceleratedScheduler,
                                            AcceleratedOptimizer,
                                            std::vector<int>&,
                                            PreparedModel<NetImpl>,
                                            std::string>>);
    EXPECT_EQ(&std::get<2>(prepared), &untouched);
    EXPECT_EQ(accelerator.unwrap_model(std::get<3>(prepared)), net);
  });
}

// ---- model and optimizer in two calls (FR-39)

TEST(LibraryTest, AnOptimizerThatComesLaterIsLinkedToTheShards) {
  RunAccelerators(Layout(2, 2), [](Accelerator& accelerator) {
    const auto net = MakeNet();
    torch::optim::SGD sgd = MakeSgd(*net);
    auto model = accelerator.prepare(net);
    auto optimizer = accelerator.prepare(sgd);
    const State before = accelerator.get_state_dict(model);
    accelerator.backward(model(AllRows()).square().mean());
    optimizer.step();
    EXPECT_FALSE(
        at::equal(before.at("head.weight"), accelerator.get_state_dict(model).at("head.weight")));
  });
}

TEST(LibraryTest, AnOrphanedOptimizerIsRefused) {
  RunAccelerators(Layout(2, 2), [](Accelerator& accelerator) {
    const auto net = MakeNet();
    torch::optim::SGD sgd = MakeSgd(*net);
    EXPECT_THAT(TextOf([&] { accelerator.prepare(sgd); }),
                HasSubstr("pass model and optimizer to one prepare() call"));
    auto model = accelerator.prepare(net);
    torch::optim::Adagrad adagrad(net->parameters());
    EXPECT_THAT(TextOf([&] { accelerator.prepare(adagrad); }), HasSubstr("has state"));
    torch::optim::LBFGS lbfgs(net->parameters());
    EXPECT_THAT(TextOf([&] { accelerator.prepare(lbfgs); }), HasSubstr("inside its step"));
    EXPECT_THAT(TextOf([&] { accelerator.prepare(MakeNet()); }), HasSubstr("one module"));
  });
}

TEST(LibraryTest, ABackwardPastTheEngineIsNamed) {
  RunAccelerators(Layout(1, 1), [](Accelerator& accelerator) {
    auto model = accelerator.prepare(MakeNet());
    EXPECT_THAT(TextOf([&] { model(AllRows()).square().mean().backward(); }),
                HasSubstr("accelerator.backward(loss)"));
  });
  worker::EngineOptions scaled = Layout(1, 0);
  scaled.grad_scaler = worker::GradScalerState{.scale = 4.0};
  RunAccelerators(scaled, [](Accelerator& accelerator) {
    const auto net = MakeNet();
    torch::optim::SGD sgd = MakeSgd(*net);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    accelerator.backward(model(AllRows()).square().mean());
    optimizer.step();
    model(AllRows()).square().mean().backward();
    EXPECT_THAT(TextOf([&] { optimizer.step(); }), HasSubstr("accelerator.backward(loss)"));
  });
}

// ---- who steps when (FR-40, FR-41)

/// Counts how often it is moved.
class CountingSchedule final : public torch::optim::LRScheduler {
 public:
  explicit CountingSchedule(torch::optim::Optimizer& optimizer) : LRScheduler(optimizer) {}

  int position() const { return static_cast<int>(step_count_); }

 private:
  std::vector<double> get_lrs() override { return get_current_lrs(); }
};

struct Walk {
  std::vector<int> updates;  ///< passes (1-based) behind which the weights had changed
  int position = 0;          ///< of the schedule
  int kept = 0;              ///< passes behind which gradients were kept
};

/// `epochs` over `batches` passes of two rows.
Walk WalkThrough(Accelerator& accelerator, int epochs, int batches) {
  const auto net = MakeNet();
  torch::optim::SGD sgd = MakeSgd(*net);
  CountingSchedule counting(sgd);
  std::vector<at::Tensor> data(static_cast<size_t>(batches * accelerator.num_processes()),
                               AllRows().narrow(0, 0, 2));
  auto loader = accelerator.prepare_data_loader(data);
  auto [model, optimizer, schedule] = accelerator.prepare(net, sgd, counting);
  Walk walk;
  int pass = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (at::Tensor& batch : loader) {
      const auto guard = accelerator.accumulate(model);
      const at::Tensor before = net->head->weight.detach().clone();
      accelerator.backward(model(batch).square().mean());
      optimizer.step();
      schedule.step();
      optimizer.zero_grad();
      ++pass;
      if (!at::equal(before, net->head->weight)) {
        walk.updates.push_back(pass);
      }
      walk.kept += net->head->weight.grad().defined() ? 1 : 0;
    }
  }
  walk.position = counting.position();
  return walk;
}

TEST(LibraryTest, TheScheduleMovesWithRealUpdates) {
  RunAccelerators(Layout(1, 0, 2), [](Accelerator& accelerator) {
    const Walk walk = WalkThrough(accelerator, 1, 8);
    EXPECT_EQ(walk.updates, (std::vector<int>{2, 4, 6, 8}));
    EXPECT_EQ(walk.position, 4);
    EXPECT_EQ(walk.kept, 4);
  });
  worker::EngineOptions decoupled = Layout(1, 0, 2);
  decoupled.step_scheduler_with_optimizer = false;
  RunAccelerators(decoupled, [](Accelerator& accelerator) {
    EXPECT_EQ(WalkThrough(accelerator, 1, 8).position, 8);
  });
  RunAccelerators(Layout(2, 0, 2), [](Accelerator& accelerator) {
    EXPECT_EQ(WalkThrough(accelerator, 1, 8).position, 8) << "once per process and update";
  });
}

TEST(LibraryTest, TheEndOfALoaderClosesAnUpdateUnlessToldOtherwise) {
  RunAccelerators(Layout(1, 0, 4), [](Accelerator& accelerator) {
    EXPECT_EQ(WalkThrough(accelerator, 2, 5).updates, (std::vector<int>{4, 5, 9, 10}));
  });
  worker::EngineOptions runs_on = Layout(1, 0, 4);
  runs_on.sync_with_dataloader = false;
  RunAccelerators(runs_on, [](Accelerator& accelerator) {
    EXPECT_EQ(WalkThrough(accelerator, 2, 6).updates, (std::vector<int>{4, 8, 12}));
  });
}

TEST(LibraryTest, AnOverflowHoldsTheScheduleBack) {
  worker::EngineOptions scaled = Layout(1, 0);
  scaled.grad_scaler = worker::GradScalerState{.scale = 4.0};
  RunAccelerators(scaled, [](Accelerator& accelerator) {
    const auto net = MakeNet();
    torch::optim::SGD sgd = MakeSgd(*net);
    CountingSchedule counting(sgd);
    auto [model, optimizer, schedule] = accelerator.prepare(net, sgd, counting);
    for (const double factor : {1.0, static_cast<double>(INFINITY), 1.0}) {
      accelerator.backward(model(AllRows()).square().mean() * factor);
      optimizer.step();
      EXPECT_EQ(optimizer.step_was_skipped(), std::isinf(factor));
      schedule.step();
      optimizer.zero_grad();
    }
    EXPECT_EQ(counting.position(), 2);
  });
}

TEST(LibraryTest, TwoOptimizersSeeOneLossScale) {
  worker::EngineOptions scaled = Layout(1, 0);
  scaled.grad_scaler = worker::GradScalerState{.scale = 4.0, .growth_interval = 1};
  RunAccelerators(scaled, [](Accelerator& accelerator) {
    const auto a = MakeNet();
    const auto b = MakeNet();
    torch::optim::SGD sgd_a(a->parameters(), torch::optim::SGDOptions(0.1));
    torch::optim::SGD sgd_b(b->parameters(), torch::optim::SGDOptions(0.1));
    auto [model_a, model_b, first, second] = accelerator.prepare(a, b, sgd_a, sgd_b);
    for (int update = 0; update < 2; ++update) {
      accelerator.backward((model_a(AllRows()) + model_b(AllRows())).square().mean());
      first.step();
      second.step();
      first.zero_grad();
      second.zero_grad();
    }
    EXPECT_TRUE(at::allclose(a->head->weight, b->head->weight, 0, 0));
    EXPECT_EQ(accelerator.scaler()->state().scale, 16.0);
    accelerator.backward(model_a(AllRows()).square().mean());  // one of them alone
    first.step();
    accelerator.backward(model_b(AllRows()).square().mean());
    EXPECT_EQ(accelerator.scaler()->state().scale, 32.0);
    second.step();
  });
}

// ---- gradients

TEST(LibraryTest, NoSyncLeavesTheExchangeToTheNextPass) {
  const auto reference = MakeNet();
  for (const at::Tensor& batch : AllRows().split(3)) {
    (reference->forward(batch).square().mean() / 2).backward();
  }
  for (const Case& layout : {kLayouts[1], kLayouts[3]}) {
    RunAccelerators(Layout(layout.world, layout.shard), [&](Accelerator& accelerator) {
      const auto net = MakeNet();
      auto model = accelerator.prepare(net);
      const std::vector<at::Tensor> batches = AllRows().split(3);
      const auto rank = static_cast<size_t>(accelerator.process_index());
      {
        const auto quiet = accelerator.no_sync(model);
        EXPECT_FALSE(accelerator.exchanges_gradients());
        accelerator.backward(model(batches[rank]).square().mean());
      }
      accelerator.backward(model(batches[rank + 2]).square().mean());
      const at::Tensor norm = accelerator.clip_grad_norm_(model->parameters(), 1e6);
      const at::Tensor expected =
          at::scalar_tensor(torch::nn::utils::clip_grad_norm_(reference->parameters(), 1e6));
      EXPECT_TRUE(at::allclose(norm.to(at::kDouble), expected.to(at::kDouble), 1e-5))
          << layout.name << " " << norm << expected;
    });
  }
}

TEST(LibraryTest, NormsOfEveryKindAreThoseOfTheWholeGradient) {
  const auto reference = MakeNet();
  reference->forward(AllRows()).square().mean().backward();
  for (const double kind : {1.0, 2.0, 3.0, static_cast<double>(INFINITY)}) {
    const double expected = torch::nn::utils::clip_grad_norm_(reference->parameters(), 1e9, kind);
    for (const Case& layout : kLayouts) {
      RunAccelerators(Layout(layout.world, layout.shard), [&](Accelerator& accelerator) {
        auto model = accelerator.prepare(MakeNet());
        accelerator.backward(model(AllRows()).square().mean());
        const at::Tensor norm = accelerator.clip_grad_norm_(model->parameters(), 1e9, kind);
        EXPECT_NEAR(norm.item<double>() / expected, 1.0, 1e-5) << layout.name << ", norm " << kind;
      });
    }
  }
}

TEST(LibraryTest, ClipsValuesOnUpdatesOnly) {
  for (const Case& layout : kLayouts) {
    RunAccelerators(Layout(layout.world, layout.shard, 2), [&](Accelerator& accelerator) {
      const auto net = MakeNet();
      torch::optim::SGD sgd = MakeSgd(*net);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      for (int pass = 1; pass <= 2; ++pass) {
        const auto guard = accelerator.accumulate(model);
        accelerator.backward(model(AllRows()).square().mean() * 100);
        const auto largest = [&] {
          double value = 0;
          for (const at::Tensor& one : optimizer.unwrapped().groups()[0].params) {
            if (one.grad().defined() && one.grad().numel() > 0) {
              value = std::max(value, one.grad().abs().max().item<double>());
            }
          }
          return value;
        };
        const double before = largest();
        accelerator.clip_grad_value_(model->parameters(), 0.01);
        if (pass == 1) {
          EXPECT_EQ(largest(), before) << layout.name;
        } else {
          EXPECT_GT(before, 0.01) << layout.name;
          EXPECT_FLOAT_EQ(static_cast<float>(largest()), 0.01F) << layout.name;
        }
      }
    });
  }
}

TEST(LibraryTest, AutocastIsForWhatStandsOutsideTheModel) {
  worker::EngineOptions options = Layout(1, 0);
  options.autocast = at::kBFloat16;
  RunAccelerators(options, [](Accelerator& accelerator) {
    auto model = accelerator.prepare(MakeNet());
    EXPECT_EQ(model(AllRows()).scalar_type(), at::kFloat);
    const at::Tensor one = at::ones({4, 4});
    {
      const auto lower = accelerator.autocast();
      EXPECT_EQ(at::mm(one, one).scalar_type(), at::kBFloat16);
    }
    EXPECT_EQ(at::mm(one, one).scalar_type(), at::kFloat);
  });
}

// ---- all processes

TEST(LibraryTest, GathersAndReduces) {
  RunAccelerators(Layout(3, 0), [](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    const auto gathered = accelerator.gather(
        std::pair(at::full({1, 2}, rank, at::kLong), at::full({}, rank > 0, at::kBool)));
    EXPECT_TRUE(at::equal(gathered.first, at::tensor({0, 0, 1, 1, 2, 2}, at::kLong).view({3, 2})));
    EXPECT_TRUE(at::equal(gathered.second, at::tensor({0, 1, 1}, at::kInt).to(at::kBool)));
    EXPECT_EQ(accelerator.reduce(at::full({2}, rank + 1.0)).sum().item<double>(), 12.0);
    EXPECT_EQ(accelerator.reduce(at::full({1}, rank, at::kLong), Reduction::kMean).item<double>(),
              1.0);
    EXPECT_THAT(TextOf([&] { accelerator.gather(at::zeros({rank / 2 + 1})); }),
                HasSubstr("rank 0 gives a tensor [1] Float, rank 2 one of [2] Float"));
  });
}

TEST(LibraryTest, MetricsCountEveryRowOnce) {
  for (const bool splits : {false, true}) {
    worker::EngineOptions options = Layout(2, 0);
    options.split_batches = splits;
    RunAccelerators(options, [&](Accelerator& accelerator) {
      std::vector<at::Tensor> batches = at::arange(10).split(4);
      auto loader = accelerator.prepare_data_loader(batches);
      std::vector<at::Tensor> seen;
      for (at::Tensor& batch : loader) {
        EXPECT_EQ(batch.size(0), splits ? 2 : 4);
        seen.push_back(accelerator.gather_for_metrics(batch));
        EXPECT_EQ(accelerator.gather_for_metrics(at::ones({})).numel(), 2);
      }
      EXPECT_TRUE(at::equal(at::cat(seen), at::arange(10))) << at::cat(seen);
      EXPECT_EQ(accelerator.gather_for_metrics(at::ones({4})).numel(), 8) << "outside of a loop";
    });
  }
}

struct Numbers : torch::data::datasets::Dataset<Numbers> {
  torch::data::Example<> get(size_t index) override {
    return {at::full({1}, static_cast<double>(index)), at::full({}, 1.0)};
  }

  std::optional<size_t> size() const override { return 5; }
};

TEST(LibraryTest, LoadersOfLibTorchAreDealt) {
  RunAccelerators(Layout(2, 0), [](Accelerator& accelerator) {
    auto data = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Numbers().map(torch::data::transforms::Stack<>()), 2);
    auto loader = accelerator.prepare(data);
    auto owned =
        accelerator.prepare(torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
            Numbers().map(torch::data::transforms::Stack<>()), 2));
    const double first = accelerator.is_main_process() ? 0 : 2;
    const double last = accelerator.is_main_process() ? 4 : 1;  // 4 and 0 | 1 and 2
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<double> begins;
      for (auto& batch : loader) {
        EXPECT_EQ(batch.data.size(0), 2);
        EXPECT_EQ(batch.target.size(0), 2);
        begins.push_back(batch.data[0].template item<double>());
      }
      EXPECT_EQ(begins, (std::vector<double>{first, last}));
    }
    EXPECT_EQ((*owned.begin()).data[0].item<double>(), first);
  });
}

TEST(LibraryTest, TheMainProcessGoesFirstAndSpeaksAlone) {
  std::atomic<bool> main_is_done = false;
  ::testing::internal::CaptureStdout();
  RunAccelerators(Layout(3, 0), [&](Accelerator& accelerator) {
    {
      const auto order = accelerator.main_process_first();
      if (accelerator.is_main_process()) {
        main_is_done = true;
      } else {
        EXPECT_TRUE(main_is_done);
      }
    }
    accelerator.wait_for_everyone();
    accelerator.print("loss", 1.5);
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "loss 1.5\n");
}

// ---- the model

TEST(LibraryTest, TheStateLoadsIntoTheBareModel) {
  for (const Case& layout : kLayouts) {
    RunAccelerators(Layout(layout.world, layout.shard), [&](Accelerator& accelerator) {
      const auto net = MakeNet();
      auto model = accelerator.prepare(net);
      const State state = accelerator.get_state_dict(model);
      const auto bare = MakeNet();
      const at::NoGradGuard no_grad;
      for (auto& item : bare->named_parameters()) {
        item.value().zero_();
        item.value().copy_(state.at(item.key()));
      }
      ExpectClose(Weights(*bare), Weights(*MakeNet()), layout.name);
      EXPECT_EQ(state.size(), bare->named_parameters().size());
    });
  }
}

TEST(LibraryTest, FreesWhatWasPrepared) {
  RunAccelerators(Layout(2, 2), [](Accelerator& accelerator) {
    auto net = MakeNet();
    const std::weak_ptr<NetImpl> watch = net;
    torch::optim::SGD sgd = MakeSgd(*net);
    auto [model, optimizer] = accelerator.prepare(std::move(net), sgd);
    net.reset();
    EXPECT_FALSE(watch.expired());
    accelerator.free_memory(model, optimizer);
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(accelerator.sharded(), nullptr);
    auto next = accelerator.prepare(MakeNet());  // there is room for another one
    EXPECT_EQ(next(AllRows()).size(0), AllRows().size(0));
  });
}

TEST(LibraryTest, OurOptimizerAndScheduleAreKnownAsWell) {
  RunAccelerators(Layout(2, 2), [](Accelerator& accelerator) {
    const auto net = MakeNet();
    worker::OptimizerGroup group;
    for (const auto& item : net->named_parameters()) {
      group.names.push_back(item.key());
      group.params.push_back(item.value());
    }
    worker::OptimizerConfig config;
    config.type = "sgd";
    config.lr = 0.1;
    auto ours = worker::Optimizer::Create(config, {group}).value();
    worker::LrScheduler halves(*ours, [](int64_t step) { return std::pow(0.5, step); });
    auto [model, optimizer, schedule] = accelerator.prepare(net, std::move(ours), halves);
    accelerator.backward(model(AllRows()).square().mean());
    optimizer.step();
    schedule.step();
    EXPECT_DOUBLE_EQ(optimizer.unwrapped().groups()[0].lr, 0.025) << "once per process";
  });
}

}  // namespace
}  // namespace lr
