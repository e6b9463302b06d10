// Who writes what, against the placement that torch chose in every recorded topology; what is read
// from where.
#include <algorithm>
#include <numeric>
#include <set>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/dcp/dcp_test_data.h"
#include "worker/checkpoint/dcp/dcp_metadata_parser.h"
#include "worker/checkpoint/dcp/dcp_read_plan.h"
#include "worker/checkpoint/dcp/dcp_save_plan.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;

TEST(RowsOfShardTest, FollowsFsdp2) {
  const auto rows = [](int64_t n, int size) {
    std::vector<DcpRows> all;
    for (int rank = 0; rank < size; ++rank) {
      all.push_back(RowsOfShard(n, rank, size));
    }
    return all;
  };
  EXPECT_EQ(rows(10, 4), (std::vector<DcpRows>{{0, 3}, {3, 3}, {6, 3}, {9, 1}}));
  EXPECT_EQ(rows(5, 4), (std::vector<DcpRows>{{0, 2}, {2, 2}, {4, 1}, {5, 0}}));
  EXPECT_EQ(rows(2, 4), (std::vector<DcpRows>{{0, 1}, {1, 1}, {2, 0}, {2, 0}}));
  EXPECT_EQ(rows(6, 4), (std::vector<DcpRows>{{0, 2}, {2, 2}, {4, 2}, {6, 0}}));
}

struct Topology {
  const char* name;
  int shard;
  int replicate;
  bool is_sharded;
};

class PlacementTest : public ::testing::TestWithParam<Topology> {
 protected:
  static DcpMetadata Read(const std::string& directory) {
    return ParseDcpMetadata(BytesOf(DcpFixture(directory) / ".metadata")).value();
  }

  /// Keys in the order of the saved state: one process wrote them in that order, tensors before the
  /// groups' values.
  static std::vector<std::string> KeysInOrder(const DcpMetadata& single) {
    std::vector<std::pair<std::pair<bool, uint64_t>, std::string>> places;
    for (const auto& [key, tensor] : single.tensors) {
      places.push_back({{false, tensor.chunks[0].location.offset}, key});
    }
    for (const auto& [key, location] : single.values) {
      places.push_back({{true, location.offset}, key});
    }
    std::sort(places.begin(), places.end());
    std::vector<std::string> keys;
    for (auto& place : places) {
      keys.push_back(std::move(place.second));
    }
    return keys;
  }

  static bool IsBufferOrStep(const std::string& key) {
    static const std::set<std::string> buffers = {"model.running_mean",
                                                  "model.scalar",
                                                  "model.counter",
                                                  "model.num_batches_tracked",
                                                  "model.mask"};
    return buffers.contains(key) || key.ends_with(".step");
  }

  static std::string Describe(const std::string& key, const std::vector<int64_t>& offsets) {
    return fmt::format("{} {}", key, offsets.empty() ? 0 : offsets[0]);
  }

  /// What torch put into each file, by offset.
  static std::vector<std::vector<std::string>> TorchsFiles(const DcpMetadata& metadata, int world) {
    std::vector<std::vector<std::pair<uint64_t, std::string>>> files(static_cast<size_t>(world));
    const auto add = [&](const DcpLocation& location, std::string what) {
      files[static_cast<size_t>(location.file[2] - '0')].emplace_back(location.offset,
                                                                      std::move(what));
    };
    for (const auto& [key, tensor] : metadata.tensors) {
      for (const DcpChunk& chunk : tensor.chunks) {
        add(chunk.location, Describe(key, chunk.offsets));
      }
    }
    for (const auto& [key, location] : metadata.values) {
      add(location, Describe(key, {}));
    }
    std::vector<std::vector<std::string>> described(files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      std::sort(files[i].begin(), files[i].end());
      for (auto& item : files[i]) {
        described[i].push_back(std::move(item.second));
      }
    }
    return described;
  }

  static void Compare(const Topology& topology, const std::string& directory) {
    const DcpMetadata single = Read("t215_plain1/" + directory);
    const std::vector<std::string> keys = KeysInOrder(single);
    std::vector<DcpProposal> proposals;
    for (const std::string& key : keys) {
      const auto tensor = single.tensors.find(key);
      proposals.push_back(tensor == single.tensors.end()
                              ? DcpProposal{}
                              : DcpProposal{tensor->second.size,
                                            tensor->second.dtype->bytes,
                                            topology.is_sharded && !IsBufferOrStep(key)});
    }
    const auto plan = PlanDcpSave(proposals, topology.shard, topology.replicate);
    std::vector<std::vector<std::string>> ours(plan.size());
    for (size_t rank = 0; rank < plan.size(); ++rank) {
      for (const DcpBlock& block : plan[rank]) {
        if (DcpVolume(block.sizes).value() > 0 || proposals[block.proposal].element_bytes == 0) {
          ours[rank].push_back(Describe(keys[block.proposal], block.offsets));
        }
      }
    }
    const DcpMetadata theirs = Read(fmt::format("t215_{}/{}", topology.name, directory));
    EXPECT_EQ(ours, TorchsFiles(theirs, topology.shard * topology.replicate));
  }
};

TEST_P(PlacementTest, OfTheModelIsTorchs) {
  Compare(GetParam(), "pytorch_model_fsdp_0");
}

TEST_P(PlacementTest, OfTheOptimizerIsTorchs) {
  Compare(GetParam(), "optimizer_0");
}

INSTANTIATE_TEST_SUITE_P(All,
                         PlacementTest,
                         ::testing::Values(Topology{"plain1", 1, 1, false},
                                           Topology{"fsdp1", 1, 1, true},
                                           Topology{"fsdp2", 2, 1, true},
                                           Topology{"fsdp3", 3, 1, true},
                                           Topology{"fsdp4", 4, 1, true},
                                           Topology{"hsdp2x2", 2, 2, true},
                                           Topology{"ddp2", 1, 2, false}),
                         [](const auto& info) { return std::string(info.param.name); });

/// A [rows, 4] tensor on `ranks` ranks, stored in reverse order.
DcpTensor Sharded(int64_t rows, int ranks) {
  DcpTensor tensor{FindDcpDtype("torch.float32"), {rows, 4}, {}};
  for (int rank = ranks - 1; rank >= 0; --rank) {
    const DcpRows part = RowsOfShard(rows, rank, ranks);
    if (part.count > 0) {
      tensor.chunks.push_back(
          {{part.first, 0}, {part.count, 4}, {fmt::format("__{}_0.distcp", rank), 0, 100}});
    }
  }
  return tensor;
}

TEST(PlanDcpReadTest, EveryRowComesOnceFromAnyNumberOfRanksToAny) {
  for (int64_t rows = 0; rows < 14; ++rows) {
    for (int source = 1; source < 6; ++source) {
      const DcpTensor tensor = Sharded(rows, source);
      for (int readers = 1; readers < 6; ++readers) {
        std::vector<int64_t> seen;
        for (int reader = 0; reader < readers; ++reader) {
          const DcpRows wanted = RowsOfShard(rows, reader, readers);
          int64_t moved = 0;
          for (const DcpPiece& piece : PlanDcpRead(tensor, wanted)) {
            for (int64_t row = 0; row < piece.rows; ++row) {
              EXPECT_EQ(piece.chunk->offsets[0] + piece.first_row + row,
                        wanted.first + piece.target_row + row);
              seen.push_back(wanted.first + piece.target_row + row);
            }
            moved += piece.rows;
          }
          EXPECT_EQ(moved, wanted.count) << "only what is wanted";
        }
        std::sort(seen.begin(), seen.end());
        std::vector<int64_t> all(static_cast<size_t>(rows));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(seen, all);
      }
    }
  }
}

TEST(PlanDcpReadTest, BlocksOfSeveralDimsAndScalars) {
  DcpTensor tensor{FindDcpDtype("torch.float32"),
                   {4, 4},
                   {{{0, 0}, {2, 3}, {"b", 0, 9}},
                    {{0, 3}, {2, 1}, {"a", 9, 9}},
                    {{2, 0}, {2, 4}, {"a", 0, 9}}}};
  EXPECT_EQ(PlanDcpRead(tensor, {1, 2}),
            (std::vector<DcpPiece>{{&tensor.chunks[2], 0, 1, 1},
                                   {&tensor.chunks[1], 1, 1, 0},
                                   {&tensor.chunks[0], 1, 1, 0}}));
  const DcpTensor scalar{FindDcpDtype("torch.float32"), {}, {{{}, {}, {"a", 0, 9}}}};
  EXPECT_EQ(PlanDcpRead(scalar, {0, 1}), (std::vector<DcpPiece>{{&scalar.chunks[0], 0, 1, 0}}));
}

}  // namespace
}  // namespace lr::worker
