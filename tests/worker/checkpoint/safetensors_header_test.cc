// Every malformed header is refused with its reason, every valid one accepted; new headers are the
// reference's.
#include "worker/checkpoint/safetensors_header.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_test_support.h"

namespace lr::worker {
namespace {

using ::lr::testing::Fixture;
using ::lr::testing::IsOk;
using ::lr::testing::ReadBytes;
using ::lr::testing::StatusIs;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Result<SafetensorsHeader> ParseFile(const std::string& bytes,
                                    const SafetensorsLimits& limits = {}) {
  LR_ASSIGN(const uint64_t length,
            ParseSafetensorsLength(std::string_view(bytes).substr(0, 8), bytes.size(), limits));
  return ParseSafetensorsHeader(std::string_view(bytes).substr(8, length), bytes.size(), limits);
}

std::string FileWith(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(data_bytes, '\0');
}

/// The fixtures' word for a fault -> what our message must say.
const std::map<std::string, std::string>& Words() {
  static const std::map<std::string, std::string> words = {
      {"too_short", "too short"},
      {"header_too_large", "header is too large"},
      {"header_beyond_file", "reaches beyond the file"},
      {"bad_json", "not valid JSON|is missing|is a JSON array|nested deeper|not an object"},
      {"not_utf8", "UTF-8"},
      {"file_too_short", "cut short"},
      {"file_too_long", "too long"},
      {"overlap", "overlaps"},
      {"hole", "leaves a hole"},
      {"bad_offsets", "data_offsets"},
      {"size_mismatch", "but its shape needs|do not fill whole bytes"},
      {"bad_shape", "shape holds"},
      {"overflow", "overflow"},
      {"unknown_dtype", "unknown dtype"},
      {"duplicate_key", "duplicate key"},
      {"bad_metadata",
       "__metadata__: the value of .* is not a text|__metadata__: the value of .* is .*, not a "
       "text"},
  };
  return words;
}

TEST(SafetensorsHeaderTest, RefusesEveryMalformedFileWithItsReason) {
  const auto expected = nlohmann::json::parse(ReadBytes(Fixture("malformed/malformed.json")));
  size_t files = 0;
  for (const auto& [name, entry] : expected.at("files").items()) {
    if (!name.starts_with("safetensors/")) {
      continue;
    }
    SCOPED_TRACE(name);
    ++files;
    const std::string must = entry.at("must");
    const Result<SafetensorsHeader> header = ParseFile(ReadBytes(Fixture("malformed/" + name)));
    if (must == "ok") {
      EXPECT_THAT(header, IsOk());
      continue;
    }
    ASSERT_TRUE(Words().contains(must)) << must;
    ASSERT_FALSE(header.ok());
    RecordProperty(name, header.status().message());
    EXPECT_THAT(header.status().message(), ContainsRegex(Words().at(must)));
  }
  EXPECT_EQ(files, 40U);
}

TEST(SafetensorsHeaderTest, AcceptsEveryFileOfTheReferenceWriterAndWritesItsHeaderAgain) {
  for (const char* name : {"all_dtypes",
                           "empty_tensors",
                           "metadata_and_names",
                           "nothing",
                           "only_metadata",
                           "rank6",
                           "spec_example"}) {
    SCOPED_TRACE(name);
    const std::string bytes =
        ReadBytes(Fixture(std::string("safetensors/") + name + ".safetensors"));
    const Result<SafetensorsHeader> header = ParseFile(bytes);
    ASSERT_THAT(header, IsOk());
    std::vector<SafetensorsEntry> entries = header->entries;
    std::reverse(entries.begin(), entries.end());  // the order of arrival does not matter
    const Result<SafetensorsHeader> laid_out = LayOutSafetensors(entries, header->metadata);
    ASSERT_THAT(laid_out, IsOk());
    EXPECT_EQ(*EncodeSafetensorsHeader(*laid_out), bytes.substr(0, header->data_start));
  }
}

TEST(SafetensorsHeaderTest, KnowsTheSizesOfTheSpecification) {
  EXPECT_EQ(EncodeSafetensorsHeader(*LayOutSafetensors({}, {{"format", "pt"}}))->size(), 8U + 32U);
  EXPECT_EQ(*EncodeSafetensorsHeader(*LayOutSafetensors({}, {})),
            std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsHeaderTest, NamesTensorAndValueInItsErrors) {
  EXPECT_THAT(
      ParseFile(FileWith(R"({"w":{"dtype":"F32","shape":[2,-1],"data_offsets":[0,8]}})", 8)),
      StatusIs(StatusCode::kInvalidArgument, "tensor 'w': shape holds the negative number -1"));
  EXPECT_THAT(ParseFile(FileWith(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})", 12)),
              StatusIs(StatusCode::kInvalidArgument,
                       "tensor 'w' occupies 12 bytes, but its shape needs 8"));
  EXPECT_THAT(ParseFile(FileWith(R"({"w":7})", 0)),
              StatusIs(StatusCode::kInvalidArgument, "'w' is the number 7, not an object"));
  EXPECT_THAT(ParseFile(FileWith(
                  R"({"w":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("duplicate key 'dtype'")));
  EXPECT_THAT(ParseFile(FileWith(R"({"w":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("shape has the wrong type")));
  EXPECT_THAT(ParseFile(FileWith(R"({"w":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("shape holds")));
  EXPECT_THAT(
      ParseFile(FileWith(
          R"({"w":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}})", 4)),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("not an integer below 2^64")));
}

TEST(SafetensorsHeaderTest, BoundsRankHeaderAndAddressableSize) {
  std::string ones = "1";
  for (int i = 1; i < 65; ++i) {
    ones += ",1";
  }
  EXPECT_THAT(ParseFile(FileWith(
                  R"({"w":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", 1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 64 numbers")));
  EXPECT_THAT(ParseFile(FileWith("{" + std::string(100, ' ') + "}", 0), {.max_header_bytes = 64}),
              StatusIs(StatusCode::kOutOfRange, "the header is too large: 102 bytes (limit 64)"));
  EXPECT_THAT(
      ParseFile(FileWith(
          R"({"w":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0)),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("overflow")));
}

TEST(SafetensorsHeaderTest, IgnoresUnknownFieldsOfAnyShape) {
  EXPECT_THAT(
      ParseFile(FileWith(
          R"({"w":{"dtype":"U8","x":{"a":[1,{"b":null}]},"shape":[1],"y":1.5,"data_offsets":[0,1]}})",
          1)),
      IsOk());
}

TEST(SafetensorsHeaderTest, RefusesReservedAndRepeatedNamesWhenWriting) {
  const SafetensorsEntry entry{"w", SafetensorsDtype::kU8, {1}, 0, 0};
  EXPECT_THAT(LayOutSafetensors({entry, entry}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("used twice")));
  SafetensorsEntry reserved = entry;
  reserved.name = "__metadata__";
  EXPECT_THAT(LayOutSafetensors({reserved}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("reserved")));
  SafetensorsEntry not_text = entry;
  not_text.name = "\xff";
  EXPECT_THAT(EncodeSafetensorsHeader(*LayOutSafetensors({not_text}, {})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
}

TEST(SafetensorsHeaderTest, EveryTruncationAndBitFlipGivesAnAnswer) {
  const std::string bytes = ReadBytes(Fixture("safetensors/metadata_and_names.safetensors"));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(ParseFile(bytes.substr(0, length)).ok()) << length;
  }
  for (size_t bit = 0; bit < 8 * (8 + 400); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Result<SafetensorsHeader> header = ParseFile(damaged);
    EXPECT_TRUE(header.ok() || !header.status().message().empty());
  }
}

}  // namespace
}  // namespace lr::worker
