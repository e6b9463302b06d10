// The reading core without LibTorch: bytes equal the recorded ones, for whole tensors, rows, blocks
// cut in every dim and items with foreign strides; verifying finds every damaged item.
#include <cstring>
#include <map>
#include <numeric>

#include "tests/support/dcp_maker.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/dcp/dcp_test_data.h"
#include "worker/checkpoint/dcp/dcp_directory.h"
#include "worker/checkpoint/safetensors_header_file.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::DcpMaker;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DcpReaderTest : public ::testing::Test {
 protected:
  DcpReaderTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  ~DcpReaderTest() override { fs::remove_all(folder_); }

  static std::string Read(DcpDirectory& directory, const std::string& key, DcpRows rows) {
    const DcpTensor* tensor = directory.Find(key).value();
    std::string bytes(BytesOfRows(*tensor, rows), '\x55');
    const auto memory = std::as_writable_bytes(std::span(bytes.data(), bytes.size()));
    EXPECT_THAT(directory.ReadRows(key, rows, memory), IsOk());
    return bytes;
  }

  static std::string ReadWhole(DcpDirectory& directory, const std::string& key) {
    return Read(directory, key, WholeOf(*directory.Find(key).value()));
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("dcp_reader_{}", getpid());
};

TEST_F(DcpReaderTest, EveryRecordedTensorIsEqualByteForByte) {
  const fs::path recorded = DcpFixture("expected.safetensors");
  const SafetensorsHeader header = ReadSafetensorsHeader(recorded).value();
  const std::string file = BytesOf(recorded);
  std::map<std::string, std::string> expected;
  for (const SafetensorsEntry& entry : header.entries) {
    expected[entry.name] = file.substr(header.data_start + entry.begin, entry.bytes());
  }
  for (const char* name : {"t215_plain1/optimizer_0",
                           "t215_fsdp3/pytorch_model_fsdp_0",
                           "t215_fsdp4/optimizer_0",
                           "t215_hsdp2x2/pytorch_model_fsdp_0",
                           "t215_ddp2/pytorch_model_fsdp_0"}) {
    auto directory = DcpDirectory::Open(DcpFixture(name), DcpChecksums::kRefuseMismatch);
    ASSERT_THAT(directory, IsOk());
    for (const auto& [key, tensor] : directory->metadata().tensors) {
      EXPECT_EQ(ReadWhole(*directory, key), expected.at(key)) << name << " " << key;
    }
    uint64_t bytes = 0;
    EXPECT_THAT(directory->VerifyItems([&](uint64_t more) { bytes += more; }), IsOk());
    EXPECT_GT(bytes, 0U);
  }
}

/// A [4, 3, 5] tensor of int16 in blocks cut along every dim, one of them transposed in its item.
TEST_F(DcpReaderTest, BlocksOfAnyShapeAndStridesComeTogether) {
  std::vector<int16_t> whole(60);
  std::iota(whole.begin(), whole.end(), int16_t{100});
  DcpMaker maker(folder_);
  maker.Tensor("t", "torch.int16", {4, 3, 5});
  const auto block =
      [&](int rank, std::vector<int64_t> at, std::vector<int64_t> sizes, bool is_transposed) {
        std::vector<int64_t> strides = ContiguousStrides(sizes);
        if (is_transposed) {  // dim 0 moves fastest
          strides = {1, sizes[0], sizes[0] * sizes[1]};
        }
        std::vector<int16_t> storage(static_cast<size_t>(sizes[0] * sizes[1] * sizes[2]));
        CopyStrided(
            sizes,
            2,
            reinterpret_cast<const std::byte*>(whole.data() + at[0] * 15 + at[1] * 5 + at[2]),
            {15, 5, 1},
            reinterpret_cast<std::byte*>(storage.data()),
            strides);
        maker.Block("t",
                    rank,
                    std::move(at),
                    std::move(sizes),
                    {reinterpret_cast<const char*>(storage.data()), storage.size() * 2},
                    strides);
      };
  block(0, {0, 0, 0}, {3, 3, 2}, false);
  block(1, {0, 0, 2}, {3, 1, 3}, false);
  block(1, {0, 1, 2}, {3, 2, 3}, true);
  block(0, {3, 0, 0}, {1, 3, 5}, false);
  maker.Finish();
  auto directory = DcpDirectory::Open(folder_, DcpChecksums::kRefuseMismatch);
  ASSERT_THAT(directory, IsOk());
  const std::string bytes(reinterpret_cast<const char*>(whole.data()), 120);
  EXPECT_EQ(ReadWhole(*directory, "t"), bytes);
  for (int64_t first = 0; first <= 4; ++first) {
    for (int64_t count = 0; count <= 4 - first; ++count) {
      EXPECT_EQ(Read(*directory, "t", {first, count}),
                bytes.substr(static_cast<size_t>(first) * 30, static_cast<size_t>(count) * 30));
    }
  }
  EXPECT_THAT(directory->CheckRows("t", {2, 3}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rows [2, 5)")));
  EXPECT_THAT(directory->VerifyItems([](uint64_t) {}), IsOk());
}

/// A wrong bit in a block narrower than the tensor was not noticed once.
TEST_F(DcpReaderTest, NarrowBlocksHaveTheirChecksumsComparedToo) {
  DcpMaker maker(folder_);
  maker.Tensor("t", "torch.uint8", {2, 4});
  maker.Block("t", 0, {0, 0}, {2, 2}, "aAbB");
  maker.Block("t", 0, {0, 2}, {2, 2}, "cCdD");
  maker.Finish();
  std::string shard = BytesOf(folder_ / "__0_0.distcp");
  shard.replace(shard.find("cCdD"), 4, "cCdE");
  std::ofstream(folder_ / "__0_0.distcp", std::ios::binary) << shard;
  auto directory = DcpDirectory::Open(folder_, DcpChecksums::kRefuseMismatch);
  ASSERT_THAT(directory, IsOk());
  std::vector<std::byte> memory(8);
  EXPECT_THAT(directory->ReadRows("t", {0, 2}, memory),
              StatusIs(StatusCode::kDataLoss, AllOf(HasSubstr("'t'"), HasSubstr("checksum"))));
}

TEST_F(DcpReaderTest, VerifyingNamesTheDamagedItem) {
  for (const char* name : {"data_bit_flipped", "crc_field_wrong"}) {
    const auto overlay = fs::copy_options::overwrite_existing | fs::copy_options::recursive;
    fs::copy(MalformedDcp("ok_base"), folder_, overlay);
    fs::copy(MalformedDcp(name), folder_, overlay);
    auto directory = DcpDirectory::Open(folder_);
    ASSERT_THAT(directory, IsOk());
    EXPECT_THAT(directory->VerifyItems([](uint64_t) {}),
                StatusIs(StatusCode::kDataLoss,
                         AllOf(HasSubstr("model.w"), HasSubstr("data/0"), HasSubstr("checksum"))));
  }
}

}  // namespace
}  // namespace lr::worker
