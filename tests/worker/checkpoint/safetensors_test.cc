// Files with tensors: byte-identical to the reference writer's, and read back exactly.
#include "worker/checkpoint/safetensors.h"

#include <sys/stat.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"

namespace lr::worker {
namespace {

using ::lr::testing::Fixture;
using ::lr::testing::IsOk;
using ::lr::testing::NamesIn;
using ::lr::testing::ReadBytes;
using ::lr::testing::StatusIs;
using ::lr::testing::TempDirectory;
using ::lr::testing::WriteBytes;
using ::testing::HasSubstr;

std::string Hex(const at::Tensor& tensor) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
  std::string hex;
  for (size_t i = 0; i < tensor.nbytes(); ++i) {
    hex += fmt::format("{:02x}", bytes[i]);
  }
  return hex;
}

TEST(SafetensorsTest, ReadsEveryTensorOfTheReferenceFiles) {
  const auto expected =
      nlohmann::json::parse(ReadBytes(Fixture("safetensors/expected.json"))).at("files");
  size_t tensors = 0;
  for (const char* name : {"all_dtypes",
                           "empty_tensors",
                           "metadata_and_names",
                           "nothing",
                           "only_metadata",
                           "rank6",
                           "spec_example"}) {
    SCOPED_TRACE(name);
    const std::string file_name = std::string(name) + ".safetensors";
    const Result<SafetensorsFile> file = SafetensorsFile::Open(Fixture("safetensors/" + file_name));
    ASSERT_THAT(file, IsOk());
    const auto& entry = expected.at(file_name);
    EXPECT_EQ(file->names(), entry.at("order").get<std::vector<std::string>>());
    for (const auto& [tensor_name, tensor_entry] : entry.at("tensors").items()) {
      SCOPED_TRACE(tensor_name);
      const Result<at::Tensor> tensor = file->Load(tensor_name);
      ASSERT_THAT(tensor, IsOk());
      if (tensor_entry.contains("bytes_hex") && tensor_entry.at("bytes_hex").is_string()) {
        EXPECT_EQ(Hex(*tensor), tensor_entry.at("bytes_hex").get<std::string>());
      }
      ++tensors;
    }
  }
  EXPECT_GE(tensors, 34U);
}

TEST(SafetensorsTest, WritesWhatTheReferenceWriterWrites) {
  const TempDirectory folder;
  for (const char* name : {"all_dtypes",
                           "empty_tensors",
                           "metadata_and_names",
                           "nothing",
                           "only_metadata",
                           "rank6",
                           "spec_example"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path original =
        Fixture("safetensors/" + std::string(name) + ".safetensors");
    const Result<SafetensorsFile> file = SafetensorsFile::Open(original);
    ASSERT_THAT(file, IsOk());
    NamedTensors tensors = *file->LoadAll();
    std::reverse(tensors.begin(), tensors.end());
    const Result<WrittenFile> written = WriteSafetensors(folder / name, tensors, file->metadata());
    ASSERT_THAT(written, IsOk());
    EXPECT_EQ(ReadBytes(folder / name), ReadBytes(original));
    EXPECT_EQ(written->size, std::filesystem::file_size(original));
    EXPECT_EQ(*SafetensorsFileSize(tensors, file->metadata()), written->size);
    EXPECT_EQ(written->checksum, *ChecksumOfFile(original));
  }
}

TEST(SafetensorsTest, WritesViewsContiguously) {
  const TempDirectory folder;
  const at::Tensor base = at::arange(12, at::kFloat).view({3, 4});
  ASSERT_THAT(WriteSafetensors(
                  folder / "f",
                  {{"t", base.t()}, {"row", base[1]}, {"grad", base.clone().requires_grad_()}}),
              IsOk());
  const Result<SafetensorsFile> file = SafetensorsFile::Open(folder / "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(at::equal(*file->Load("t"), base.t()));
  EXPECT_TRUE(at::equal(*file->Load("row"), base[1]));
  EXPECT_TRUE(file->Load("t")->is_contiguous());
  EXPECT_TRUE(file->metadata().empty());
}

TEST(SafetensorsTest, FilesFollowTheUmask) {
  const TempDirectory folder;
  const mode_t before = umask(0022);
  ASSERT_THAT(WriteSafetensors(folder / "f", {}), IsOk());
  umask(before);

  struct stat info {};

  ASSERT_EQ(stat((folder / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644U);
}

TEST(SafetensorsTest, FailuresNameFileAndTensorAndLeaveNothingBehind) {
  const TempDirectory folder;
  EXPECT_THAT(
      WriteSafetensors(folder / "f", {{"z", at::zeros({1}, at::kComplexDouble)}}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("tensor 'z' has dtype ComplexDouble")));
  EXPECT_THAT(WriteSafetensors(folder / "f", {{"z", at::Tensor()}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("undefined")));
  EXPECT_THAT(WriteSafetensors(folder / "missing/f", {}),
              StatusIs(StatusCode::kNotFound, HasSubstr("missing/f")));
  EXPECT_TRUE(NamesIn(folder.path()).empty());
  EXPECT_THAT(SafetensorsFile::Open(folder / "absent"),
              StatusIs(StatusCode::kNotFound, HasSubstr("absent")));
  EXPECT_THAT(SafetensorsFile::Open(folder.path()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST(SafetensorsTest, AFileCutShortWhileOpenIsAnError) {
  const TempDirectory folder;
  ASSERT_THAT(WriteSafetensors(folder / "f", {{"w", at::zeros({64})}}), IsOk());
  const Result<SafetensorsFile> file = SafetensorsFile::Open(folder / "f");
  ASSERT_THAT(file, IsOk());
  std::filesystem::resize_file(folder / "f", 100);
  EXPECT_THAT(file->Load("w"), StatusIs(StatusCode::kDataLoss, HasSubstr("ended")));
  EXPECT_THAT(file->Load("v"), StatusIs(StatusCode::kNotFound, HasSubstr("no tensor 'v'")));
}

TEST(SafetensorsTest, TypesThatTorchLacksAreNamed) {
  const TempDirectory folder;
  const std::string header = R"({"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}      )";
  const uint64_t length = header.size();
  WriteBytes(folder / "f", std::string(reinterpret_cast<const char*>(&length), 8) + header + "abc");
  const Result<SafetensorsFile> file = SafetensorsFile::Open(folder / "f");
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->Load("w"), StatusIs(StatusCode::kUnimplemented, HasSubstr("F6_E2M3")));
}

}  // namespace
}  // namespace lr::worker
