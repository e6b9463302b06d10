// Model and optimizer through a distributed checkpoint: what the ranks write equals torch's files,
// what torch wrote arrives in shards of any number of ranks; failures are everybody's and change
// nothing.
#include "worker/checkpoint/dcp/sharded_state.h"

#include <algorithm>
#include <cstdlib>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/rank_threads.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/dcp/dcp_test_data.h"
#include "worker/checkpoint/dcp/dcp_tensor.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::RunRanks;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

bool Same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

const SafetensorsFile& Expected() {
  static const SafetensorsFile file =
      SafetensorsFile::Open(DcpFixture("expected.safetensors")).value();
  return file;
}

at::Tensor Shard(const at::Tensor& full, const DcpPlace& place) {
  const DcpRows rows = RowsOfShard(full.size(0), place.shard_rank, place.shard_size);
  return full.narrow(0, rows.first, rows.count).clone();
}

/// Names as the module registers them: one process wrote them in that order.
std::vector<std::string> ModelNames() {
  const auto directory = DcpDirectory::Open(DcpFixture("t215_plain1/pytorch_model_fsdp_0")).value();
  std::vector<std::pair<uint64_t, std::string>> places;
  for (const auto& [key, tensor] : directory.metadata().tensors) {
    places.emplace_back(tensor.chunks[0].location.offset, key.substr(6));
  }
  std::sort(places.begin(), places.end());
  std::vector<std::string> names;
  for (auto& place : places) {
    names.push_back(std::move(place.second));
  }
  return names;
}

bool IsBuffer(const std::string& name) {
  static const std::vector<std::string> buffers = {
      "running_mean", "scalar", "counter", "num_batches_tracked", "mask"};
  return std::find(buffers.begin(), buffers.end(), name) != buffers.end();
}

/// One rank's part of the recorded module. `is_blank`: zeros, to be loaded into.
std::vector<ShardedParameter> Model(const DcpPlace& place, bool is_blank = false) {
  std::vector<ShardedParameter> model;
  for (const std::string& name : ModelNames()) {
    const at::Tensor full = Expected().Load("model." + name).value();
    const bool is_sharded = !IsBuffer(name);
    const at::Tensor shard = is_sharded ? Shard(full, place) : full;
    model.push_back(
        {{name}, is_blank ? at::zeros_like(shard) : shard, full.sizes().vec(), is_sharded});
  }
  return model;
}

OptimizerGroup Group(const std::vector<ShardedParameter>& model,
                     double lr,
                     double initial_lr,
                     std::vector<std::string> names) {
  OptimizerGroup group;
  group.names = std::move(names);
  group.lr = lr;
  group.lr_is_own = true;
  for (const std::string& name : group.names) {
    for (const ShardedParameter& parameter : model) {
      if (parameter.names[0] == name) {
        group.params.push_back(parameter.shard);
      }
    }
  }
  group.initial_lr = initial_lr;
  return group;
}

/// The recorded optimizer's groups over one rank's shards, without state.
std::unique_ptr<Optimizer> MakeOptimizer(const std::vector<ShardedParameter>& model) {
  OptimizerConfig config;
  config.type = "adamw";
  config.betas = {0.9, 0.95};
  config.weight_decay = 0.01;
  const auto names = nlohmann::json::parse(BytesOf(DcpFixture("expected_values.json")));
  auto optimizer =
      Optimizer::Create(config,
                        {Group(model, 0.00025, 0.001, names["optimizer.param_groups.0.params"]),
                         Group(model, 7e-05, 0.0001, names["optimizer.param_groups.1.params"])})
          .value();
  optimizer->groups()[0].lr = 0.00025;
  optimizer->groups()[0].initial_lr = 0.001;
  optimizer->groups()[1].initial_lr = 0.0001;
  optimizer->groups()[1].options.weight_decay = 0.0;
  return optimizer;
}

/// Calls `visit(id, name)` for every parameter of the optimizer.
template <typename Visit>
void EachParameter(const Optimizer& optimizer, const Visit& visit) {
  int64_t id = 0;
  for (const OptimizerGroup& group : optimizer.groups()) {
    for (const std::string& name : group.names) {
      visit(id++, name);
    }
  }
}

at::Tensor ExpectedState(const std::string& name, const std::string& state, const DcpPlace& place) {
  const at::Tensor full =
      Expected().Load(fmt::format("optimizer.state.{}.{}", name, state)).value();
  return state == "step" ? full : Shard(full, place);
}

class ShardedStateTest : public ::testing::Test {
 protected:
  ShardedStateTest() { fs::create_directories(folder_); }

  ~ShardedStateTest() override { fs::remove_all(folder_); }

  static DcpPlace PlaceOf(int rank, int shard_size, int replicate_size) {
    return {rank % shard_size, shard_size, rank / shard_size, replicate_size};
  }

  /// The recorded optimizer after its three steps, one rank's part.
  static std::vector<DcpEntry> RecordedOptimizer(const DcpPlace& place) {
    const std::vector<ShardedParameter> model = Model(place);
    const auto optimizer = MakeOptimizer(model);
    EachParameter(*optimizer, [&](int64_t id, const std::string& name) {
      for (const char* state : {"step", "exp_avg", "exp_avg_sq"}) {
        optimizer->state()[id][state] = ExpectedState(name, state, place);
      }
    });
    return OptimizerEntries(model, *optimizer).value();
  }

  /// What the checkpoint writer does when all have written.
  static Status Finish(const DcpSave& save,
                       const Result<DcpShardFile>& shard,
                       const fs::path& folder,
                       Communicator& communicator) {
    LR_TRY(communicator.AgreeAll(shard.status()));
    LR_ASSIGN(const std::vector<std::string> reports, communicator.AllGather(save.Report(*shard)));
    return communicator.AgreeAll(
        communicator.rank() == 0 ? save.WriteMetadata(folder, reports, "id").status() : Status());
  }

  /// All ranks save `entries(place)` into the folder; each rank's outcome.
  template <typename Entries>
  static std::vector<Status> SaveInto(const fs::path& folder,
                                      int shard_size,
                                      int replicate_size,
                                      const Entries& entries) {
    std::vector<Status> outcomes(static_cast<size_t>(shard_size * replicate_size));
    RunRanks(shard_size * replicate_size, [&](Communicator& communicator) {
      const DcpPlace place = PlaceOf(communicator.rank(), shard_size, replicate_size);
      const auto run = [&]() -> Status {
        LR_ASSIGN(DcpSave save, DcpSave::Create(entries(place), place));
        save.TakeSnapshot();
        const Result<DcpShardFile> shard = save.WriteShard(folder);
        return Finish(save, shard, folder, communicator);
      };
      outcomes[static_cast<size_t>(communicator.rank())] = run();
    });
    return outcomes;
  }

  template <typename Entries>
  std::vector<Status> Save(int shard_size, int replicate_size, const Entries& entries) {
    return SaveInto(folder_, shard_size, replicate_size, entries);
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / fmt::format("sharded_state_{}", getpid());
};

struct Topology {
  const char* name;
  int shard;
  int replicate;
};

class SavedModelTest : public ShardedStateTest, public ::testing::WithParamInterface<Topology> {};

TEST_P(SavedModelTest, HasTorchsFilesByteForByte) {
  for (const Status& outcome : Save(GetParam().shard, GetParam().replicate, [](auto& place) {
         return ModelEntries(Model(place));
       })) {
    ASSERT_THAT(outcome, IsOk());
  }
  const fs::path theirs = DcpFixture(fmt::format("t215_{}/pytorch_model_fsdp_0", GetParam().name));
  for (int rank = 0; rank < GetParam().shard * GetParam().replicate; ++rank) {
    EXPECT_TRUE(BytesOf(folder_ / DcpShardName(rank)) == BytesOf(theirs / DcpShardName(rank)))
        << rank;
  }
  const auto ours = DcpDirectory::Open(folder_);
  ASSERT_THAT(ours, IsOk());
  EXPECT_EQ(ours->metadata().paths, DcpDirectory::Open(theirs)->metadata().paths);
}

INSTANTIATE_TEST_SUITE_P(All,
                         SavedModelTest,
                         ::testing::Values(Topology{"fsdp1", 1, 1},
                                           Topology{"fsdp2", 2, 1},
                                           Topology{"fsdp3", 3, 1},
                                           Topology{"fsdp4", 4, 1},
                                           Topology{"hsdp2x2", 2, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(ShardedStateTest, TheOptimizerIsSavedAsTorchSavesIt) {
  for (const Status& outcome : Save(2, 2, RecordedOptimizer)) {
    ASSERT_THAT(outcome, IsOk());
  }
  auto ours = DcpDirectory::Open(folder_, DcpChecksums::kRefuseMismatch);
  auto theirs = DcpDirectory::Open(DcpFixture("t215_hsdp2x2/optimizer_0"));
  ASSERT_THAT(ours, IsOk());
  EXPECT_EQ(ours->metadata().paths, theirs->metadata().paths);
  for (const auto& [key, tensor] : theirs->metadata().tensors) {
    EXPECT_EQ(ours->metadata().tensors.at(key).dtype, tensor.dtype) << key;
    EXPECT_EQ(ours->metadata().tensors.at(key).chunks.size(), tensor.chunks.size()) << key;
    EXPECT_TRUE(Same(ReadDcpTensor(*ours, key).value(), ReadDcpTensor(*theirs, key).value()))
        << key;
  }
  for (const auto& [key, location] : theirs->metadata().values) {
    EXPECT_EQ(ours->ReadValue(key).value(), theirs->ReadValue(key).value()) << key;
  }
}

TEST_F(ShardedStateTest, TorchsCheckpointsArriveInAnyNumberOfShards) {
  for (const char* source : {"plain1", "fsdp3", "fsdp4", "hsdp2x2", "ddp2"}) {
    auto directory =
        DcpDirectory::Open(DcpFixture(fmt::format("t215_{}/pytorch_model_fsdp_0", source)));
    ASSERT_THAT(directory, IsOk());
    for (int shards = 1; shards <= 5; ++shards) {
      for (int rank = 0; rank < shards; ++rank) {
        const DcpPlace place = PlaceOf(rank, shards, 1);
        const std::vector<ShardedParameter> loaded = Model(place, true);
        const auto notes = LoadModelEntries(*directory, loaded, place);
        ASSERT_THAT(notes, IsOk());
        EXPECT_TRUE(notes->empty());
        const std::vector<ShardedParameter> wanted = Model(place);
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_TRUE(Same(loaded[i].shard, wanted[i].shard)) << wanted[i].names[0];
        }
      }
    }
  }
}

TEST_F(ShardedStateTest, TheOptimizerArrivesFromBothFormsOfKeys) {
  for (const char* source :
       {"t215_fsdp3/optimizer_0", "t215_plain1/optimizer_flat_0", "t215_fsdp2/optimizer_flat_0"}) {
    auto directory = DcpDirectory::Open(DcpFixture(source));
    ASSERT_THAT(directory, IsOk());
    for (int rank = 0; rank < 4; ++rank) {
      const DcpPlace place = PlaceOf(rank, 4, 1);
      const std::vector<ShardedParameter> model = Model(place);
      const auto optimizer = MakeOptimizer(model);
      optimizer->groups()[1].lr = 1.0;
      optimizer->groups()[0].options.eps = 1.0;
      ASSERT_THAT(LoadOptimizerEntries(*directory, model, place, *optimizer), IsOk()) << source;
      EXPECT_EQ(optimizer->groups()[1].lr, 7e-05);
      EXPECT_EQ(optimizer->groups()[0].options.eps, 1e-8);
      EXPECT_EQ(optimizer->groups()[1].initial_lr, 0.0001);
      EachParameter(*optimizer, [&](int64_t id, const std::string& name) {
        for (const char* state : {"step", "exp_avg", "exp_avg_sq"}) {
          EXPECT_TRUE(Same(optimizer->state().at(id).at(state), ExpectedState(name, state, place)))
              << name << " " << state;
        }
      });
    }
  }
}

TEST_F(ShardedStateTest, TiedParametersAreSavedUnderEachNameAndLoadedFromAny) {
  const auto tied = [](const DcpPlace&) {
    return ModelEntries({{{"a", "b"}, at::arange(6, at::kFloat).view({3, 2}), {3, 2}, false}});
  };
  ASSERT_THAT(Save(1, 1, tied)[0], IsOk());
  auto directory = DcpDirectory::Open(folder_).value();
  EXPECT_EQ(directory.metadata().tensors.size(), 2U);
  const ShardedParameter other{{"new", "b"}, at::zeros({3, 2}), {3, 2}, false};
  const auto notes = LoadModelEntries(directory, {other}, {});
  ASSERT_THAT(notes, IsOk());
  EXPECT_THAT(*notes, Contains(HasSubstr("no place for 1 tensors of the checkpoint: model.a")));
  EXPECT_EQ(other.shard[2][1].item<float>(), 5.0F);
}

TEST_F(ShardedStateTest, MissingKeysAndOtherShapesChangeNothing) {
  auto directory = DcpDirectory::Open(DcpFixture("t215_fsdp2/pytorch_model_fsdp_0")).value();
  std::vector<ShardedParameter> model = Model({}, true);
  model[3].names = {"absent.weight"};
  model[5].names = {"absent.bias"};
  EXPECT_THAT(LoadModelEntries(directory, model, {}),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("2 tensors"),
                             HasSubstr("model.absent.weight"),
                             HasSubstr("model.absent.bias"))));
  model = Model({}, true);
  model.back().full_shape[0] += 1;
  EXPECT_THAT(LoadModelEntries(directory, model, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("in the checkpoint, [")));
  for (const ShardedParameter& parameter : model) {
    EXPECT_FALSE(parameter.shard.any().item<bool>()) << parameter.names[0];
  }
  const std::vector<ShardedParameter> whole = Model({});
  const auto optimizer = MakeOptimizer(whole);
  std::swap(optimizer->groups()[0].names[0], optimizer->groups()[1].names[0]);
  auto state = DcpDirectory::Open(DcpFixture("t215_fsdp2/optimizer_0")).value();
  EXPECT_THAT(LoadOptimizerEntries(state, whole, {}, *optimizer),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("parameter group 0")));
  EXPECT_TRUE(optimizer->state().empty());
}

TEST_F(ShardedStateTest, AFailureOfOneRankIsEverybodysAndLeavesNoCheckpoint) {
  std::vector<Status> outcomes(2);
  RunRanks(2, [&](Communicator& communicator) {
    const DcpPlace place = PlaceOf(communicator.rank(), 2, 1);
    const DcpSave save = DcpSave::Create(ModelEntries(Model(place)), place).value();
    const fs::path target = place.shard_rank == 1 ? folder_ / "absent" : folder_;
    outcomes[static_cast<size_t>(communicator.rank())] =
        Finish(save, save.WriteShard(target), folder_, communicator);
  });
  EXPECT_THAT(outcomes[0], StatusIs(StatusCode::kNotFound, HasSubstr("rank 1")));
  EXPECT_EQ(outcomes[0].message(), outcomes[1].message());
  EXPECT_FALSE(fs::exists(folder_ / ".metadata"));
}

TEST_F(ShardedStateTest, RanksThatSaveDifferentThingsAreRefused) {
  const auto outcomes = Save(2, 1, [](const DcpPlace& place) {
    std::vector<ShardedParameter> model = Model(place);
    if (place.shard_rank == 1) {
      std::swap(model[0].names, model[1].names);
      std::swap(model[0], model[1]);
    }
    return ModelEntries(model);
  });
  EXPECT_THAT(outcomes[0],
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("rank 1 saves other keys")));
  EXPECT_FALSE(fs::exists(folder_ / ".metadata"));
}

TEST_F(ShardedStateTest, WrongShardsAndRepeatedKeysAreRefusedBeforeAnythingIsWritten) {
  const ShardedParameter wrong{{"w"}, at::zeros({2, 2}), {3, 2}, true};
  EXPECT_THAT(DcpSave::Create(ModelEntries({wrong}), {1, 2, 0, 1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("[1, 2] is its part of [3, 2]")));
  const ShardedParameter twice{{"w", "w"}, at::zeros({3}), {3}, false};
  EXPECT_THAT(DcpSave::Create(ModelEntries({twice}), {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'model.w' is to be saved twice")));
  const ShardedParameter odd{{"w"}, at::zeros({3}, at::kFloat8_e5m2), {3}, false};
  EXPECT_THAT(DcpSave::Create(ModelEntries({odd}), {}),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("Float8_e5m2")));
}

/// On demand, for tests/peer/check_dcp.py: writes checkpoints under $LR_DCP_OUT.
TEST_F(ShardedStateTest, DISABLED_WritesForThePeer) {
  const char* out = std::getenv("LR_DCP_OUT");  // NOLINT(concurrency-mt-unsafe): one thread
  ASSERT_NE(out, nullptr);
  for (const auto& [name, shard, replicate] :
       {Topology{"plain", 1, 1}, Topology{"shard3", 3, 1}, Topology{"hybrid2x2", 2, 2}}) {
    const fs::path model = fs::path(out) / name / "pytorch_model_fsdp_0";
    const fs::path optimizer = fs::path(out) / name / "optimizer_0";
    fs::create_directories(model);
    fs::create_directories(optimizer);
    const auto entries = [](const DcpPlace& place) { return ModelEntries(Model(place)); };
    EXPECT_THAT(SaveInto(model, shard, replicate, entries)[0], IsOk());
    EXPECT_THAT(SaveInto(optimizer, shard, replicate, RecordedOptimizer)[0], IsOk());
  }
}

}  // namespace
}  // namespace lr::worker
