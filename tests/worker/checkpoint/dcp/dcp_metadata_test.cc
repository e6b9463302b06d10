// `.metadata` as torch 2.11 and 2.15 wrote it, the printed example, and files that must be refused,
// each with its reason.
#include "worker/checkpoint/dcp/dcp_metadata.h"

#include <ostream>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/dcp/dcp_test_data.h"
#include "tests/worker/checkpoint/dcp/golden_metadata.h"
#include "worker/checkpoint/dcp/dcp_metadata_parser.h"
#include "worker/checkpoint/dcp/dcp_metadata_writer.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::HasSubstr;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(ParseDcpMetadataTest, ReadsThePrintedExample) {
  const auto metadata = ParseDcpMetadata(FromHex(kGoldenMetadataHex));
  ASSERT_THAT(metadata, IsOk());
  DcpMetadata expected;
  expected.tensors["model.w"] = {
      FindDcpDtype("torch.float32"),
      {3, 2},
      {{{0, 0}, {2, 2}, {"__0_0.distcp", 0, 1000}}, {{2, 0}, {1, 2}, {"__1_0.distcp", 0, 1000}}}};
  expected.values["x.lr"] = {"__0_0.distcp", 1000, 500};
  expected.paths["model.w"] = {"model", "w"};
  expected.paths["x.lr"] = {"x", "lr"};
  EXPECT_EQ(*metadata, expected);
}

TEST(ParseDcpMetadataTest, ReadsEveryRecordedDirectory) {
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(DcpFixture(""))) {
    if (entry.path().filename() != ".metadata") {
      continue;
    }
    ++count;
    const auto metadata = ParseDcpMetadata(BytesOf(entry.path()));
    ASSERT_THAT(metadata, IsOk()) << entry.path();
    EXPECT_EQ(metadata->paths.size(), metadata->tensors.size() + metadata->values.size());
    if (!entry.path().string().starts_with(DcpFixture("t215").string())) {
      continue;
    }
    std::map<std::string, uint64_t> sizes;
    for (const std::string& name : DcpFileNames(*metadata)) {
      sizes[name] = fs::file_size(entry.path().parent_path() / name);
    }
    EXPECT_THAT(CheckDcpRanges(*metadata, sizes), IsOk()) << entry.path();
  }
  EXPECT_EQ(count, 29);
}

TEST(ParseDcpMetadataTest, BothReleasesOfTorchSaidTheSame) {
  for (const char* directory : {"plain1/pytorch_model_fsdp_0",
                                "fsdp4/optimizer_0",
                                "hsdp2x2/optimizer_0",
                                "fsdp2/optimizer_flat_0"}) {
    const std::string file = std::string(directory) + "/.metadata";
    const auto older = ParseDcpMetadata(BytesOf(DcpFixture("t211_" + file)));
    const auto newer = ParseDcpMetadata(BytesOf(DcpFixture("t215_" + file)));
    ASSERT_THAT(older, IsOk());
    ASSERT_THAT(newer, IsOk());
    EXPECT_EQ(*older, *newer) << directory;
  }
}

TEST(ParseDcpMetadataTest, KeepsDotsOfNamesAndIntegersInPaths) {
  const auto metadata = ParseDcpMetadata(BytesOf(DcpFixture("t215_fsdp4/optimizer_0/.metadata")));
  ASSERT_THAT(metadata, IsOk());
  EXPECT_EQ(metadata->paths.at("optimizer.state.fc1.weight.exp_avg"),
            (DcpPath{"optimizer", "state", "fc1.weight", "exp_avg"}));
  EXPECT_EQ(metadata->paths.at("optimizer.param_groups.1.lr"),
            (DcpPath{"optimizer", "param_groups", int64_t{1}, "lr"}));
  const DcpTensor& three_rows = metadata->tensors.at("optimizer.state.three_row.exp_avg");
  EXPECT_EQ(three_rows.size, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(three_rows.chunks.size(), 3U) << "the empty fourth one is left out";
  EXPECT_EQ(metadata->tensors.at("optimizer.state.f16.w.exp_avg").dtype->name, "torch.float16");
}

TEST(EncodeDcpMetadataTest, WhatIsWrittenReadsTheSame) {
  for (const char* directory : {"t215_fsdp4/optimizer_0",
                                "t215_hsdp2x2/pytorch_model_fsdp_0",
                                "t215_fsdp2/optimizer_flat_0"}) {
    const std::string theirs = BytesOf(DcpFixture(directory) / ".metadata");
    const auto metadata = ParseDcpMetadata(theirs);
    ASSERT_THAT(metadata, IsOk());
    const std::string ours = EncodeDcpMetadata(*metadata, "id");
    const auto back = ParseDcpMetadata(ours);
    ASSERT_THAT(back, IsOk()) << directory;
    EXPECT_EQ(*back, *metadata) << directory;
    EXPECT_LT(ours.size(), theirs.size() * 3 / 2);
  }
}

struct Refusal {
  const char* directory;
  const char* reason;

  friend std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
    return out << refusal.directory;
  }
};

class RefusedMetadataTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedMetadataTest, SaysWhy) {
  const auto metadata = ParseDcpMetadata(BytesOf(MalformedDcp(GetParam().directory) / ".metadata"));
  ASSERT_FALSE(metadata.ok());
  EXPECT_THAT(metadata.status().message(), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RefusedMetadataTest,
    ::testing::Values(Refusal{"metadata_empty", "end of the data"},
                      Refusal{"metadata_no_stop", "end of the data"},
                      Refusal{"metadata_os_system", "name posix.system"},
                      Refusal{"metadata_os_system_p4", "system"},
                      Refusal{"metadata_getattr_other", "name builtins.dict"},
                      Refusal{"metadata_persistent_id", "opcode 0x51"},
                      Refusal{"metadata_wrong_top", "does not hold"},
                      Refusal{"metadata_cycle", "contains itself"},
                      Refusal{"metadata_deep", "deeper than 100"},
                      Refusal{"metadata_memo_unset", "slot 7"},
                      Refusal{"metadata_frame_past_end", "past the end"},
                      Refusal{"metadata_string_past_end", "end of the data"},
                      Refusal{"chunk_overlap",
                              "'model.w': the chunks at [0, 0] and [1, 0] overlap"},
                      Refusal{"chunk_out_of_bounds", "outside the shape [2, 2]"},
                      Refusal{"chunk_gap", "6 of 8 elements"},
                      Refusal{"negative_size", "[-3, 2] is negative"},
                      Refusal{"storage_missing", "no storage entry for the chunk at [2, 0]"},
                      Refusal{"negative_offset", "`offset` is -"},
                      Refusal{"huge_offset", "an integer of"},
                      Refusal{"path_parent", "not a plain file name"},
                      Refusal{"path_absolute", "not a plain file name"},
                      Refusal{"transform", "transformed"}),
    [](const auto& info) { return std::string(info.param.directory); });

TEST(ParseDcpMetadataTest, AcceptsWhatIsUnusualButValid) {
  const auto base = ParseDcpMetadata(BytesOf(MalformedDcp("ok_base") / ".metadata"));
  ASSERT_THAT(base, IsOk());
  for (const char* name : {"ok_checkpoint_id_null",
                           "ok_no_version_no_storage_meta",
                           "ok_protocol2",
                           "ok_protocol5",
                           "ok_unknown_attribute"}) {
    const auto metadata = ParseDcpMetadata(BytesOf(MalformedDcp(name) / ".metadata"));
    ASSERT_THAT(metadata, IsOk()) << name;
    EXPECT_EQ(*metadata, *base) << name;
  }
  const auto flat = ParseDcpMetadata(BytesOf(MalformedDcp("ok_planner_data_null") / ".metadata"));
  ASSERT_THAT(flat, IsOk());
  EXPECT_TRUE(flat->paths.empty());
}

TEST(ParseDcpMetadataTest, SurvivesEveryCutAndEveryChangedByte) {
  const std::string bytes = BytesOf(MalformedDcp("ok_base") / ".metadata");
  for (size_t place = 0; place < bytes.size(); ++place) {
    EXPECT_FALSE(ParseDcpMetadata(bytes.substr(0, place)).ok()) << place;
    std::string damaged = bytes;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
    const auto metadata = ParseDcpMetadata(damaged);  // a changed name is still a name
    EXPECT_TRUE(metadata.ok() || !metadata.status().message().empty());
  }
}

TEST(CheckDcpRangesTest, RefusesWhatReachesPastTheEndOrIntoAnother) {
  const auto of = [](const char* name) {
    return ParseDcpMetadata(BytesOf(MalformedDcp(name) / ".metadata")).value();
  };
  const std::map<std::string, uint64_t> sizes = {{"__0_0.distcp", 1577}, {"__1_0.distcp", 5676}};
  EXPECT_THAT(CheckDcpRanges(of("ok_base"), sizes), IsOk());
  EXPECT_THAT(CheckDcpRanges(of("offset_past_end"), sizes),
              StatusIs(StatusCode::kDataLoss, HasSubstr("past its end")));
  EXPECT_THAT(CheckDcpRanges(of("length_past_end"), sizes),
              StatusIs(StatusCode::kDataLoss, HasSubstr("past its end")));
  DcpMetadata shifted = of("ok_base");
  shifted.tensors.at("model.n").chunks[0].location.offset -= 1;
  EXPECT_THAT(CheckDcpRanges(shifted, sizes),
              StatusIs(StatusCode::kDataLoss, HasSubstr("overlap another")));
}

}  // namespace
}  // namespace lr::worker
