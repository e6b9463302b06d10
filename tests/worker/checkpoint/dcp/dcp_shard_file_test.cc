// Shard files written here equal, byte for byte, what torch wrote for the same tensors and values.
#include "worker/checkpoint/dcp/dcp_shard_file.h"

#include <ATen/ATen.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/dcp/dcp_test_data.h"
#include "worker/checkpoint/dcp/dcp_metadata_parser.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

class DcpShardFileTest : public ::testing::Test {
 protected:
  DcpShardFileTest() { fs::create_directories(folder_); }

  ~DcpShardFileTest() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("dcp_shard_{}", getpid());
};

std::string ItemBytes(const fs::path& directory, const DcpLocation& location) {
  return BytesOf(directory / location.file).substr(location.offset, location.length);
}

TEST_F(DcpShardFileTest, EveryTensorItemEqualsTorchs) {
  const fs::path directory = DcpFixture("t215_plain1/pytorch_model_fsdp_0");
  const auto metadata = ParseDcpMetadata(BytesOf(directory / ".metadata"));
  ASSERT_THAT(metadata, IsOk());
  const auto expected = SafetensorsFile::Open(DcpFixture("expected.safetensors"));
  ASSERT_THAT(expected, IsOk());
  std::vector<DcpItem> items;
  std::string theirs;
  for (const auto& [key, tensor] : metadata->tensors) {
    items.emplace_back(expected->Load(key).value());
    theirs += ItemBytes(directory, tensor.chunks[0].location);
  }
  const auto shard = WriteDcpShard(folder_, 3, items);
  ASSERT_THAT(shard, IsOk());
  EXPECT_TRUE(BytesOf(folder_ / "__3_0.distcp") == theirs);
  EXPECT_EQ(shard->file.size, theirs.size());
  EXPECT_EQ(shard->locations.back().offset + shard->locations.back().length, theirs.size());
  EXPECT_EQ(shard->locations.size(), 20U);
}

TEST_F(DcpShardFileTest, EmptyTensorsAndViewsEqualTorchs) {
  const fs::path directory = DcpFixture("t215_fsdp4/pytorch_model_fsdp_0");
  const std::string theirs = BytesOf(directory / "__3_0.distcp");
  const auto shard = WriteDcpShard(
      folder_, 0, {at::empty({0, 2}), at::arange(8, at::kFloat).view({4, 2}).t().slice(1, 1, 3)});
  ASSERT_THAT(shard, IsOk());
  EXPECT_EQ(shard->locations[0].length, 1513U);
  const std::string ours = BytesOf(folder_ / "__0_0.distcp");
  EXPECT_NE(theirs.find(ours.substr(0, 1513)), std::string::npos);
  EXPECT_EQ(shard->locations[1], (DcpLocation{"__0_0.distcp", 1513, 1577}));
}

TEST_F(DcpShardFileTest, EveryValueItemEqualsTorchs) {
  const fs::path directory = DcpFixture("t215_plain1/optimizer_0");
  const auto metadata = ParseDcpMetadata(BytesOf(directory / ".metadata"));
  ASSERT_THAT(metadata, IsOk());
  const std::map<std::string, DcpValue> values = {
      {"0.lr", 0.00025},
      {"0.betas", std::vector<double>{0.9, 0.95}},
      {"0.amsgrad", false},
      {"0.decoupled_weight_decay", true},
      {"0.foreach", DcpValue()},
      {"1.params", std::vector<std::string>{"emb.weight", "conv.weight", "conv.bias"}}};
  std::vector<DcpItem> items;
  std::string theirs;
  for (const auto& [key, value] : values) {
    items.emplace_back(value);
    theirs += ItemBytes(directory, metadata->values.at("optimizer.param_groups." + key));
  }
  const auto shard = WriteDcpShard(folder_, 0, items);
  ASSERT_THAT(shard, IsOk());
  EXPECT_TRUE(BytesOf(folder_ / "__0_0.distcp") == theirs);
}

TEST_F(DcpShardFileTest, WithoutItemsTheFileIsEmpty) {
  ASSERT_THAT(WriteDcpShard(folder_, 1, {}), IsOk());
  EXPECT_EQ(fs::file_size(folder_ / "__1_0.distcp"), 0U);
}

TEST_F(DcpShardFileTest, FailuresLeaveNothingAndSayWhy) {
  EXPECT_THAT(WriteDcpShard(folder_, 0, {at::empty({2}, at::kFloat8_e5m2)}),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("Float8_e5m2")));
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_THAT(WriteDcpShard("/dev/null/x", 0, {}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("__0_0.distcp")));
}

}  // namespace
}  // namespace lr::worker
