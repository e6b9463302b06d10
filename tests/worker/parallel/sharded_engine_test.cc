/// The schedule of the sharded engine: gradients whatever each rank uses, what is present when,
/// frozen and ignored parameters, calls without gradient, inputs' and outputs' dtypes.
#include "worker/parallel/sharded_engine.h"

#include <random>

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include "tests/support/rank_threads.h"
#include "tests/support/shard_groups.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/parallel/fsdp_net.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::RunRankThreads;
using lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeNet;
using testing::NetImpl;

/// Every schedule is compared between the ranks, collective by collective.
ShardGroups MakeShardGroups(const c10::intrusive_ptr<c10d::Store>& store,
                            int rank,
                            int replicate,
                            int shard) {
  ShardGroups groups = lr::testing::MakeShardGroups(store, rank, replicate, shard);
  groups.compared = std::make_shared<ComparedStarts>();
  return groups;
}

using Gradients = std::map<std::string, at::Tensor>;

ShardedOptions BlockOptions() {
  ShardedOptions options;
  options.wrap.class_names = {"Block"};
  return options;
}

std::unique_ptr<ShardedEngine> MakeEngine(NetImpl& net,
                                          const ShardGroups& groups,
                                          const ShardedOptions& options = BlockOptions()) {
  auto engine = ShardedEngine::Create(net, groups, options);
  EXPECT_THAT(engine, IsOk());
  return engine.ok() ? std::move(*engine) : nullptr;
}

at::Tensor Input(int rank, int step) {
  static const auto data = testing::LoadNumbers("data.safetensors");
  return data.at("x")[step].narrow(0, rank * 3, 3);
}

at::Tensor LossOf(const at::Tensor& output) {
  return output.square().mean();
}

at::Tensor Forward(ShardedEngine& engine, NetImpl& net, at::Tensor x, bool sync = true) {
  engine.BeginForward({&x}, sync);
  at::Tensor output = net.forward(x);
  engine.EndForward({&output}, sync);
  return output;
}

/// Collective: whole gradients by name; undefined ones left out.
Gradients GatherGradients(const ShardedEngine& engine) {
  Gradients gradients;
  for (const ShardedParameter& one : engine.parameters()) {
    if (one.shard.grad().defined()) {
      ShardedParameter gradient = one;
      gradient.shard = one.shard.grad();
      gradients[one.names.front()] = GatherParameter(engine.groups(), gradient);
    }
  }
  return gradients;
}

/// One process: the mean of the ranks' gradients, summed in rank order.
Gradients ReferenceGradients(const std::vector<std::vector<size_t>>& orders, int step) {
  Gradients sum;
  for (size_t rank = 0; rank < orders.size(); ++rank) {
    const auto net = MakeNet();
    net->order = orders[rank];
    LossOf(net->forward(Input(static_cast<int>(rank), step))).backward();
    for (const auto& item : net->named_parameters()) {
      const at::Tensor& gradient = item.value().grad();
      if (gradient.defined()) {
        at::Tensor& total = sum[item.key()];
        total = total.defined() ? total + gradient : gradient.clone();
      }
    }
  }
  for (auto& [name, total] : sum) {
    total.div_(static_cast<double>(orders.size()));
  }
  return sum;
}

void ExpectEqual(const Gradients& found, const Gradients& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, gradient] : wanted) {
    ASSERT_TRUE(found.count(name) > 0) << name;
    EXPECT_TRUE(at::equal(found.at(name), gradient))
        << name << " differs by " << (found.at(name) - gradient).abs().max().item<double>();
  }
}

class RanksTest : public ::testing::TestWithParam<int> {};

TEST_P(RanksTest, GradientsEqualTheSumInRankOrderBitForBit) {
  const int size = GetParam();
  const std::vector<std::vector<size_t>> orders(static_cast<size_t>(size), {0, 1, 1, 2});
  const Gradients wanted = ReferenceGradients(orders, 0);
  RunRankThreads(size, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    net->order = {0, 1, 1, 2};
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 1, size));
    engine->Backward(LossOf(Forward(*engine, *net, Input(rank, 0))), true);
    const Gradients found = GatherGradients(*engine);
    if (rank == 0) {
      ExpectEqual(found, wanted);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, RanksTest, ::testing::Values(1, 2, 3, 4));

/// All ranks run the same blocks; whose outputs the loss uses differs.
at::Tensor PartialLoss(NetImpl& net, const at::Tensor& x, const std::vector<bool>& uses) {
  at::Tensor loss = net.embed(x).square().mean();
  at::Tensor hidden = net.embed(x);
  for (size_t block = 0; block < uses.size(); ++block) {
    const at::Tensor next = net.blocks->at<testing::BlockImpl>(block).forward(hidden);
    if (uses[block]) {
      loss = loss + next.square().mean();
    }
    hidden = next.detach();
  }
  return loss;
}

TEST(ShardedEngineTest, EveryRankMayUseOtherBlocksInEveryStep) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 12;
  std::mt19937 generator(3);
  std::vector<std::vector<std::vector<bool>>> uses(kRounds);
  for (int round = 0; round < kRounds; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<bool> own;
      for (int64_t block = 0; block < testing::kBlocks; ++block) {
        // In every third round nobody uses the last block.
        own.push_back(generator() % 2 == 0 && !(round % 3 == 0 && block == 2));
      }
      uses[static_cast<size_t>(round)].push_back(own);
    }
  }
  std::vector<Gradients> wanted;
  for (const auto& round : uses) {
    Gradients& sum = wanted.emplace_back();
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto net = MakeNet();
      PartialLoss(*net, Input(rank, 0), round[static_cast<size_t>(rank)]).backward();
      for (const auto& item : net->named_parameters()) {
        if (item.value().grad().defined()) {
          at::Tensor& total = sum[item.key()];
          total = total.defined() ? total + item.value().grad() : item.value().grad().clone();
        }
      }
    }
    for (auto& [name, total] : sum) {
      total.div_(kRanks);
    }
  }
  RunRankThreads(kRanks, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 2, 2));
    for (int round = 0; round < kRounds; ++round) {
      at::Tensor x = Input(rank, 0);
      engine->BeginForward({&x}, true);
      at::Tensor loss =
          PartialLoss(*net, x, uses[static_cast<size_t>(round)][static_cast<size_t>(rank)]);
      engine->EndForward({&loss}, true);
      engine->Backward(loss, true);
      const Gradients found = GatherGradients(*engine);
      if (rank == 0) {
        SCOPED_TRACE(round);
        const Gradients& round_wanted = wanted[static_cast<size_t>(round)];
        ASSERT_EQ(found.size(), round_wanted.size());
        for (const auto& [name, gradient] : round_wanted) {
          EXPECT_TRUE(at::allclose(found.at(name), gradient, 1e-6, 1e-8)) << name;
        }
      }
      for (const ShardedParameter& one : engine->parameters()) {
        at::Tensor shard = one.shard;
        shard.mutable_grad() = at::Tensor();
      }
    }
  });
}

TEST(ShardedEngineTest, PresentIsTheRootAndOneBlockWithItsSuccessor) {
  RunRankThreads(2, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    int64_t total = 0;
    int64_t block = 0;
    for (const auto& item : net->named_parameters()) {
      total += item.value().numel();
      block += item.key().starts_with("blocks.0.") ? item.value().numel() : 0;
    }
    const int64_t root = total - 3 * block;
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 1, 2));
    EXPECT_EQ(engine->resident_elements(), 0);
    for (int step = 0; step < 2; ++step) {
      int64_t most = 0;
      int visits = 0;
      const auto look = [&](const at::Tensor& /*gradient*/) {
        most = std::max(most, engine->resident_elements());
        ++visits;
      };
      at::Tensor x = Input(rank, 0);
      engine->BeginForward({&x}, true);
      at::Tensor hidden = net->embed(x);
      for (const size_t index : net->order) {
        hidden.register_hook(look);
        hidden = net->blocks->at<testing::BlockImpl>(index).forward(hidden);
      }
      at::Tensor output = net->head(net->norm(hidden));
      engine->EndForward({&output}, true);
      EXPECT_EQ(engine->resident_elements(), root);
      engine->Backward(LossOf(output), true);
      EXPECT_EQ(engine->resident_elements(), 0);
      EXPECT_EQ(visits, 3);
      EXPECT_LE(most, root + block);
    }
    {
      const at::NoGradGuard no_grad;
      Forward(*engine, *net, Input(rank, 0));
      EXPECT_EQ(engine->resident_elements(), 0);
    }
  });
}

TEST(ShardedEngineTest, FrozenBlocksAreFreedWhenTheirInputsGradientIsDone) {
  RunRankThreads(2, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    for (const size_t block : {1, 2}) {
      for (at::Tensor& parameter : net->blocks[block]->parameters()) {
        parameter.set_requires_grad(false);
      }
    }
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 1, 2));
    int64_t at_the_first_block = -1;
    at::Tensor x = Input(rank, 0);
    engine->BeginForward({&x}, true);
    const at::Tensor embedded = net->embed(x);
    embedded.register_hook(
        [&](const at::Tensor& /*gradient*/) { at_the_first_block = engine->resident_elements(); });
    at::Tensor hidden = embedded;
    for (const size_t block : net->order) {
      hidden = net->blocks->at<testing::BlockImpl>(block).forward(hidden);
    }
    at::Tensor output = net->head(net->norm(hidden));
    engine->EndForward({&output}, true);
    engine->Backward(LossOf(output), true);
    int64_t root = 0;
    for (const auto& one : engine->parameters()) {
      if (!one.names.front().starts_with("blocks.")) {
        int64_t numel = 1;
        for (const int64_t size : one.full_shape) {
          numel *= size;
        }
        root += numel;
      }
    }
    EXPECT_LE(at_the_first_block, root);  // all blocks are free again
    for (const ShardedParameter& one : engine->parameters()) {
      EXPECT_EQ(
          one.shard.grad().defined(),
          !one.names.front().starts_with("blocks.1") && !one.names.front().starts_with("blocks.2"))
          << one.names.front();
    }
  });
}

TEST(ShardedEngineTest, IgnoredModulesStayWholeAndTheirGradientsAreAveraged) {
  const Gradients wanted = ReferenceGradients({{0, 1, 2}, {0, 1, 2}}, 0);
  RunRankThreads(2, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    ShardedOptions options = BlockOptions();
    options.wrap.ignored_modules = "head|blocks\\.1\\.norm.";
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 1, 2), options);
    engine->Backward(LossOf(Forward(*engine, *net, Input(rank, 0))), true);
    const Gradients found = GatherGradients(*engine);
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [name, gradient] : wanted) {
      EXPECT_TRUE(at::allclose(found.at(name), gradient, 1e-6, 1e-8)) << name;
    }
    EXPECT_EQ(net->head->weight.sizes(), at::IntArrayRef({4, testing::kWidth}));
    EXPECT_TRUE(at::equal(net->head->weight.grad(), found.at("head.weight")));
  });
}

TEST(ShardedEngineTest, RanksThatStartDifferentlyContinueFromRankZero) {
  RunRankThreads(3, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    if (rank != 0) {
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : net->parameters()) {
        parameter.zero_();
      }
    }
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 1, 3));
    const auto wanted = testing::LoadNumbers("init.safetensors");
    for (const ShardedParameter& one : engine->parameters()) {
      EXPECT_TRUE(at::equal(GatherParameter(engine->groups(), one), wanted.at(one.names.front())));
    }
  });
}

TEST(ShardedEngineTest, RanksThatBuildDifferentTreesAreRefused) {
  for (const bool same_number : {true, false}) {
    RunRankThreads(2, [&](const auto& store, int rank) {
      const auto net = MakeNet();
      ShardedOptions options = BlockOptions();
      if (rank == 1 && same_number) {
        net->blocks[1]->parameters()[0].set_requires_grad(false);
      } else if (rank == 1) {
        options.wrap = {.min_num_params = 1 << 20};
      }
      const auto engine = ShardedEngine::Create(*net, MakeShardGroups(store, rank, 1, 2), options);
      EXPECT_THAT(engine.status(),
                  StatusIs(StatusCode::kFailedPrecondition,
                           HasSubstr(same_number ? "unit 'blocks.1' differs between ranks"
                                                 : "into different numbers of units")));
    });
  }
}

TEST(ShardedEngineTest, RanksThatRunOtherBlocksAreToldWhichOnes) {
  RunRankThreads(2, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    net->order = rank == 0 ? std::vector<size_t>{0, 1} : std::vector<size_t>{0, 2};
    const auto engine = MakeEngine(*net, MakeShardGroups(store, rank, 1, 2));
    try {
      Forward(*engine, *net, Input(rank, 0));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CollectiveMismatch& error) {
      EXPECT_THAT(
          error.what(),
          AllOf(HasSubstr("gather of unit 'blocks.1'"), HasSubstr("gather of unit 'blocks.2'")));
    }
  });
}

TEST(ShardedEngineTest, APeerThatFailsInBackwardEndsTheOthersWithUnitAndOperation) {
  RunRankThreads(2, [&](const auto& store, int rank) {
    const auto net = MakeNet();
    auto engine = MakeEngine(*net, lr::testing::MakeShardGroups(store, rank, 1, 2));
    at::Tensor x = Input(rank, 0);
    engine->BeginForward({&x}, true);
    at::Tensor hidden = net->embed(x);
    if (rank == 1) {
      hidden.register_hook(
          [](const at::Tensor& /*gradient*/) { throw std::range_error("no gradient today"); });
    }
    for (const size_t block : net->order) {
      hidden = net->blocks->at<testing::BlockImpl>(block).forward(hidden);
    }
    at::Tensor output = net->head(net->norm(hidden));
    engine->EndForward({&output}, true);
    try {
      engine->Backward(LossOf(output), true);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::range_error& error) {
      EXPECT_EQ(rank, 1);
      EXPECT_STREQ(error.what(), "no gradient today");
      engine.reset();  // as the end of a process closes its connections
    } catch (const CollectiveError& error) {
      EXPECT_EQ(rank, 0);
      EXPECT_THAT(error.what(), HasSubstr("reduction of the root unit (collective "));
    }
  });
}

TEST(ShardedEngineTest, BackwardTwiceIsRefused) {
  const auto net = MakeNet();
  const auto engine = MakeEngine(*net, ShardGroups{});
  const at::Tensor loss = LossOf(Forward(*engine, *net, Input(0, 0)));
  engine->Backward(loss, true);
  EXPECT_THROW(engine->Backward(loss, true), c10::Error);
}

// ---- which blocks become units

Status SelectionError(NetImpl& net, const WrapRequest& request) {
  const auto selection = SelectUnits(net, request);
  return selection.ok() ? Status() : selection.status();
}

TEST(UnitSelectionTest, NamesAndSizesChooseBlocksChildrenFirst) {
  const auto net = MakeNet();
  const auto by_name = SelectUnits(*net, {.class_names = {"Block"}});
  ASSERT_THAT(by_name, IsOk());
  ASSERT_EQ(by_name->units.size(), 4U);
  EXPECT_EQ(by_name->units[0].name, "blocks.0");
  EXPECT_EQ(by_name->units[3].name, "");
  EXPECT_EQ(by_name->units[3].parameters.size(), 6U);
  // A block has 2 LayerNorms, two projections, two feed-forward layers and the gain.
  const int64_t block = 4 * 18 + 18 * 54 + 54 + 18 * 18 + 18 * 26 + 26 + 26 * 18 + 18 + 1;
  EXPECT_EQ(SelectUnits(*net, {.min_num_params = block - 1})->units.size(), 4U);
  EXPECT_EQ(SelectUnits(*net, {.min_num_params = block})->units.size(), 1U);  // strictly greater
}

TEST(UnitSelectionTest, RefusalsNameWhatIsWrong) {
  const auto net = MakeNet();
  EXPECT_THAT(SelectionError(*net, {}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("wrap_modules"), HasSubstr("min_num_params"))));
  EXPECT_THAT(SelectionError(*net, {.class_names = {"Block"}, .min_num_params = 5}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("exclude each other")));
  EXPECT_THAT(SelectionError(*net, {.class_names = {"Blok"}}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("Blok"), HasSubstr("Block, LayerNorm, Linear"))));
  EXPECT_THAT(SelectionError(*net, {.class_names = {"Linear"}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("does not derive from UnitModule")));
  EXPECT_THAT(SelectUnits(*net, {.class_names = {"Block", "Other"}, .names_are_declared = true}),
              IsOk());
  EXPECT_THAT(SelectionError(*net, {.class_names = {"Block"}, .ignored_modules = "("}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("regular expression")));
  const auto unmatched =
      SelectUnits(*net, {.class_names = {"Block"}, .ignored_modules = "nothing"});
  ASSERT_THAT(unmatched, IsOk());
  EXPECT_THAT(unmatched->warnings, ::testing::ElementsAre(HasSubstr("matches no module")));
}

/// Two blocks that share a module, and a scalar parameter.
struct OddNetImpl : torch::nn::Module {
  explicit OddNetImpl(bool is_tied) {
    first = register_module("first", testing::Block());
    second = register_module("second", testing::Block());
    if (is_tied) {
      register_module("alias", first->up);
    } else {
      register_parameter("scale", torch::ones({}));
    }
  }

  testing::Block first{nullptr}, second{nullptr};
};

TEST(UnitSelectionTest, TiedWeightsMayNotCrossUnits) {
  OddNetImpl net(true);
  EXPECT_THAT(SelectUnits(net, {.class_names = {"Block"}}).status(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'first.up.weight' (unit 'first')"),
                             HasSubstr("'alias.weight' (unit the root)"))));
}

TEST(UnitSelectionTest, ScalarsCannotBeCut) {
  OddNetImpl net(false);
  EXPECT_THAT(SelectUnits(net, {.class_names = {"Block"}}).status(),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'scale'"), HasSubstr("one-dimensional of size 1"))));
}

// ---- the cut

TEST(ShardLayoutTest, EqualsChunksOfTheFirstDimension) {
  for (int64_t rows = 1; rows <= 13; ++rows) {
    for (int64_t degree = 1; degree <= 6; ++degree) {
      const ShardLayout layout(rows, 3, degree);
      const std::vector<at::Tensor> chunks = at::arange(rows).chunk(degree);
      int64_t total = 0;
      for (int64_t rank = 0; rank < degree; ++rank) {
        const int64_t wanted = rank < static_cast<int64_t>(chunks.size())
                                   ? chunks[static_cast<size_t>(rank)].size(0)
                                   : 0;
        EXPECT_EQ(layout.RowsOf(rank), wanted) << rows << " over " << degree << ", rank " << rank;
        total += layout.NumelOf(rank);
      }
      EXPECT_EQ(total, layout.numel());
    }
  }
}

}  // namespace
}  // namespace lr::worker
