// Every recorded checkpoint comes out bit for bit; any range of rows equals the same rows of the
// whole; every damaged one is refused with its reason.
#include "worker/checkpoint/dcp/dcp_directory.h"

#include <cstring>
#include <ostream>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/dcp/dcp_test_data.h"
#include "worker/checkpoint/dcp/dcp_metadata_writer.h"
#include "worker/checkpoint/dcp/dcp_shard_file.h"
#include "worker/checkpoint/dcp/dcp_tensor.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Same type, shape and bits.
bool Same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.is_contiguous() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

class DcpDirectoryTest : public ::testing::Test {
 protected:
  DcpDirectoryTest() { fs::create_directories(folder_); }

  ~DcpDirectoryTest() override { fs::remove_all(folder_); }

  /// Copies the files of `from` over those already there.
  void Overlay(const fs::path& from) {
    fs::copy(from, folder_, fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }

  static void CompareTensors(const fs::path& path, const fs::path& expected_path) {
    auto directory = DcpDirectory::Open(path, DcpChecksums::kRefuseMismatch);
    ASSERT_THAT(directory, IsOk());
    const auto expected = SafetensorsFile::Open(expected_path);
    ASSERT_THAT(expected, IsOk());
    EXPECT_FALSE(directory->metadata().tensors.empty());
    for (const auto& [key, tensor] : directory->metadata().tensors) {
      const auto ours = ReadDcpTensor(*directory, key);
      ASSERT_THAT(ours, IsOk());
      EXPECT_TRUE(Same(*ours, expected->Load(key).value())) << path << " " << key;
    }
    EXPECT_THAT(directory->notes(), IsEmpty());
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("dcp_dir_{}", getpid());
};

TEST_F(DcpDirectoryTest, EveryRecordedTensorComesOutBitForBit) {
  int count = 0;
  for (const auto& topology : fs::directory_iterator(DcpFixture(""))) {
    if (!topology.path().filename().string().starts_with("t215")) {
      continue;
    }
    for (const auto& directory : fs::directory_iterator(topology.path())) {
      CompareTensors(directory.path(), DcpFixture("expected.safetensors"));
      ++count;
    }
  }
  EXPECT_EQ(count, 16);
  CompareTensors(DcpFixture("peft_fsdp2/adapter_only/pytorch_model_fsdp_0"),
                 DcpFixture("peft_fsdp2/adapter_only_expected.safetensors"));
  CompareTensors(DcpFixture("peft_fsdp2/everything/pytorch_model_fsdp_0"),
                 DcpFixture("peft_fsdp2/everything_expected.safetensors"));
  CompareTensors(DcpFixture("peft_fsdp2/optimizer_0"),
                 DcpFixture("peft_fsdp2/optimizer_0_expected.safetensors"));
}

/// The shard files of both releases are the same, so only `.metadata` is recorded for 2.11.
TEST_F(DcpDirectoryTest, Torch211Too) {
  for (const char* directory : {"plain1/pytorch_model_fsdp_0",
                                "plain1/optimizer_flat_0",
                                "fsdp2/optimizer_0",
                                "fsdp4/pytorch_model_fsdp_0",
                                "hsdp2x2/optimizer_0"}) {
    Overlay(DcpFixture(std::string("t215_") + directory));
    Overlay(DcpFixture(std::string("t211_") + directory));
    CompareTensors(folder_, DcpFixture("expected.safetensors"));
  }
}

TEST_F(DcpDirectoryTest, AnyRowsEqualTheSameRowsOfTheWhole) {
  auto directory = DcpDirectory::Open(DcpFixture("t215_fsdp4/optimizer_0"));
  ASSERT_THAT(directory, IsOk());
  for (const char* name : {"fc1.weight", "conv.weight", "three_row", "b16.b"}) {
    const std::string key = fmt::format("optimizer.state.{}.exp_avg", name);
    const at::Tensor whole = ReadDcpTensor(*directory, key).value();
    for (int64_t first = 0; first <= whole.size(0); ++first) {
      for (int64_t last = first; last <= whole.size(0); ++last) {
        const auto rows = ReadDcpRows(*directory, key, {first, last - first});
        ASSERT_THAT(rows, IsOk());
        EXPECT_TRUE(Same(*rows, whole.slice(0, first, last).contiguous())) << key;
      }
    }
    EXPECT_THAT(ReadDcpRows(*directory, key, {0, whole.size(0) + 1}),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("rows [0, ")));
  }
}

DcpValue FromJson(const nlohmann::json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return {};
    case nlohmann::json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::json::value_t::array:
      return json.get<std::vector<std::string>>();
    case nlohmann::json::value_t::object:
      return json.at("tuple").get<std::vector<double>>();
    default:
      return json.get<double>();
  }
}

TEST_F(DcpDirectoryTest, EveryRecordedValueComesOut) {
  const auto expected = nlohmann::json::parse(BytesOf(DcpFixture("expected_values.json")));
  for (const char* topology : {"plain1", "fsdp3", "hsdp2x2", "ddp2"}) {
    auto directory = DcpDirectory::Open(DcpFixture(fmt::format("t215_{}/optimizer_0", topology)));
    ASSERT_THAT(directory, IsOk());
    EXPECT_EQ(directory->metadata().values.size(), expected.size());
    for (const auto& [key, value] : expected.items()) {
      const auto ours = directory->ReadValue(key);
      ASSERT_THAT(ours, IsOk());
      EXPECT_EQ(*ours, FromJson(value)) << key;
    }
  }
}

TEST_F(DcpDirectoryTest, BlocksCutInBothDims) {
  const at::Tensor whole = at::arange(30, at::kFloat).view({5, 6});
  const auto block = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
    return whole.slice(0, row, row + rows).slice(1, column, column + columns);
  };
  const auto shard = WriteDcpShard(
      folder_, 0, {block(0, 3, 0, 4), block(0, 3, 4, 2), block(3, 2, 0, 1), block(3, 2, 1, 5)});
  ASSERT_THAT(shard, IsOk());
  DcpMetadata metadata;
  metadata.tensors["w"] = {FindDcpDtype("torch.float32"),
                           {5, 6},
                           {{{0, 0}, {3, 4}, shard->locations[0]},
                            {{0, 4}, {3, 2}, shard->locations[1]},
                            {{3, 0}, {2, 1}, shard->locations[2]},
                            {{3, 1}, {2, 5}, shard->locations[3]}}};
  ASSERT_THAT(WriteDurableFile(folder_ / ".metadata", EncodeDcpMetadata(metadata, "id")), IsOk());
  auto directory = DcpDirectory::Open(folder_);
  ASSERT_THAT(directory, IsOk());
  EXPECT_TRUE(Same(ReadDcpTensor(*directory, "w").value(), whole));
  EXPECT_TRUE(
      Same(ReadDcpRows(*directory, "w", {2, 2}).value(), whole.slice(0, 2, 4).contiguous()));
}

struct Damage {
  const char* directory;
  StatusCode code;
  const char* reason;

  friend std::ostream& operator<<(std::ostream& out, const Damage& damage) {
    return out << damage.directory;
  }
};

class DamagedDirectoryTest : public DcpDirectoryTest, public ::testing::WithParamInterface<Damage> {
 protected:
  /// Opens and reads everything; the first failure.
  Status ReadAll() const {
    LR_ASSIGN(DcpDirectory directory, DcpDirectory::Open(folder_, DcpChecksums::kRefuseMismatch));
    for (const auto& [key, tensor] : directory.metadata().tensors) {
      LR_TRY(ReadDcpTensor(directory, key));
    }
    for (const auto& [key, location] : directory.metadata().values) {
      LR_TRY(directory.ReadValue(key));
    }
    return {};
  }
};

TEST_P(DamagedDirectoryTest, SaysWhy) {
  const std::string name = GetParam().directory;
  if (name != "shard_missing") {
    Overlay(MalformedDcp("ok_base"));
  }
  if (name == "metadata_missing") {
    fs::remove(folder_ / ".metadata");
  } else {
    Overlay(MalformedDcp(name));  // the files that differ from those of ok_base
  }
  EXPECT_THAT(
      ReadAll(),
      StatusIs(GetParam().code, AllOf(HasSubstr(GetParam().reason), HasSubstr(folder_.string()))));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    DamagedDirectoryTest,
    ::testing::Values(Damage{"metadata_missing", StatusCode::kNotFound, ".metadata"},
                      Damage{"metadata_os_system", StatusCode::kInvalidArgument, "posix.system"},
                      Damage{"offset_past_end", StatusCode::kDataLoss, "past its end"},
                      Damage{"length_past_end", StatusCode::kDataLoss, "past its end"},
                      Damage{"shard_missing", StatusCode::kNotFound, "__1_0.distcp"},
                      Damage{"shard_truncated", StatusCode::kDataLoss, "past its end"},
                      Damage{"dtype_mismatch", StatusCode::kInvalidArgument, "says torch.float64"},
                      Damage{"shape_mismatch", StatusCode::kInvalidArgument, "the metadata says"},
                      Damage{"wrong_item", StatusCode::kInvalidArgument, "LongStorage"},
                      Damage{"data_bit_flipped", StatusCode::kDataLoss, "checksum"},
                      Damage{"crc_field_wrong", StatusCode::kDataLoss, "checksum"},
                      Damage{"item_truncated", StatusCode::kInvalidArgument, "archive"},
                      Damage{"item_not_zip", StatusCode::kInvalidArgument, "archive"},
                      Damage{"item_evil_tensor", StatusCode::kInvalidArgument, "posix.system"},
                      Damage{"item_evil_bytes", StatusCode::kInvalidArgument, "posix.system"},
                      Damage{"item_tensor_shape", StatusCode::kInvalidArgument, "shape is [3, 2]"},
                      Damage{"item_not_tensor", StatusCode::kInvalidArgument, "no tensor"},
                      Damage{"item_stride_escape", StatusCode::kInvalidArgument, "strides"}),
    [](const auto& info) { return std::string(info.param.directory); });

TEST_F(DcpDirectoryTest, AForgivingReaderNotesAWrongChecksum) {
  Overlay(MalformedDcp("ok_base"));
  Overlay(MalformedDcp("crc_field_wrong"));
  auto directory = DcpDirectory::Open(folder_);
  ASSERT_THAT(directory, IsOk());
  EXPECT_TRUE(
      Same(ReadDcpTensor(*directory, "model.w").value(), at::arange(6, at::kFloat).view({3, 2})));
  EXPECT_THAT(directory->notes(), ElementsAre(HasSubstr("__0_0.distcp")));
}

TEST_F(DcpDirectoryTest, StaleShardsAndUnusualMetadataDoNotMatter) {
  for (const char* name : {"ok_base", "ok_stale_shard", "ok_protocol2", "ok_planner_data_null"}) {
    Overlay(MalformedDcp("ok_base"));
    Overlay(MalformedDcp(name));
    auto directory = DcpDirectory::Open(folder_, DcpChecksums::kRefuseMismatch);
    ASSERT_THAT(directory, IsOk()) << name;
    EXPECT_TRUE(
        Same(ReadDcpTensor(*directory, "model.w").value(), at::arange(6, at::kFloat).view({3, 2})));
    EXPECT_EQ(directory->ReadValue("lr").value(), DcpValue(1e-05));
    EXPECT_EQ(directory->ReadValue("names").value(), DcpValue(std::vector<std::string>{"a", "b"}));
  }
}

TEST_F(DcpDirectoryTest, EveryCutAndChangedByteOfAShardEndsInAValueOrAnError) {
  Overlay(MalformedDcp("ok_base"));
  const fs::path shard = folder_ / "__0_0.distcp";
  const std::string bytes = BytesOf(shard);
  for (size_t place = 0; place < bytes.size(); place += 3) {
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
    std::ofstream(shard, std::ios::binary | std::ios::trunc) << damaged;
    auto directory = DcpDirectory::Open(folder_);
    ASSERT_THAT(directory, IsOk());
    const auto tensor = ReadDcpTensor(*directory, "model.w");
    EXPECT_TRUE(tensor.ok() || !tensor.status().message().empty());
  }
}

}  // namespace
}  // namespace lr::worker
