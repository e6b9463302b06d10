/// Columns of every stored form that datasets have had, and messages for the damaged ones.
#include "worker/data/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include "common/io/atomic_file.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/result_matcher.h"
#include "tests/worker/data/temporary_folder.h"

namespace lr::worker {
namespace {

using lr::testing::IsOk;
using lr::testing::IsOkAndHolds;
using lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ArrayPtr = std::shared_ptr<arrow::Array>;

template <typename Builder, typename Value>
ArrayPtr Plain(const std::vector<Value>& values) {
  Builder builder;
  for (const Value& value : values) {
    EXPECT_TRUE(builder.Append(value).ok());
  }
  return *builder.Finish();
}

/// Lists of the given lengths over the values.
ArrayPtr Lists(const std::vector<int32_t>& lengths, const ArrayPtr& values) {
  std::vector<int32_t> offsets = {0};
  for (const int32_t length : lengths) {
    offsets.push_back(offsets.back() + length);
  }
  return *arrow::ListArray::FromArrays(*Plain<arrow::Int32Builder>(offsets), *values);
}

class ParquetFileTest : public ::testing::Test {
 protected:
  /// Writes one table, `row_group` rows to a group, and reads it back.
  Result<ParquetFile> WriteAndRead(const std::vector<std::pair<std::string, ArrayPtr>>& columns,
                                   int64_t row_group = 1024) {
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (const auto& [name, array] : columns) {
      fields.push_back(arrow::field(name, array->type()));
      arrays.push_back(array);
    }
    const auto table = arrow::Table::Make(arrow::schema(fields), arrays);
    const auto sink = arrow::io::FileOutputStream::Open(file_.string());
    EXPECT_TRUE(sink.ok());
    EXPECT_TRUE(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), *sink, row_group).ok());
    EXPECT_TRUE((*sink)->Close().ok());
    return ParquetFile::Read(file_);
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "file-000.parquet";
};

TEST_F(ParquetFileTest, ReadsEveryNumberType) {
  const std::vector<int> values = {0, 1, 100};
  const std::vector<std::pair<std::string, ArrayPtr>> columns = {
      {"int8", Plain<arrow::Int8Builder>(values)},
      {"uint8", Plain<arrow::UInt8Builder>(values)},
      {"int16", Plain<arrow::Int16Builder>(values)},
      {"uint16", Plain<arrow::UInt16Builder>(values)},
      {"int32", Plain<arrow::Int32Builder>(values)},
      {"uint32", Plain<arrow::UInt32Builder>(values)},
      {"int64", Plain<arrow::Int64Builder>(values)},
      {"uint64", Plain<arrow::UInt64Builder>(values)},
      {"float32", Plain<arrow::FloatBuilder>(values)},
      {"float64", Plain<arrow::DoubleBuilder>(values)},
  };
  const auto file = WriteAndRead(columns);
  ASSERT_THAT(file, IsOk());
  for (const auto& [name, array] : columns) {
    SCOPED_TRACE(name);
    EXPECT_THAT(file->Numbers(name), IsOkAndHolds(std::vector<double>{0, 1, 100}));
    if (name.starts_with("float")) {
      EXPECT_THAT(file->Integers(name),
                  StatusIs(StatusCode::kInvalidArgument, HasSubstr("whole numbers are expected")));
    } else {
      EXPECT_THAT(file->Integers(name), IsOkAndHolds(std::vector<int64_t>{0, 1, 100}));
    }
    std::vector<float> floats(2);
    EXPECT_THAT(file->CopyFloats(name, {1}, 1, 2, floats.data()), IsOk());
    EXPECT_THAT(floats, ElementsAre(1.0F, 100.0F));
  }
}

TEST_F(ParquetFileTest, ReadsBooleansAndTexts) {
  const auto file = WriteAndRead({{"done", Plain<arrow::BooleanBuilder, bool>({false, true})},
                                  {"note", Plain<arrow::StringBuilder, std::string>({"a", "é"})}});
  ASSERT_THAT(file, IsOk());
  bool done[2] = {true, false};
  EXPECT_THAT(file->CopyBooleans("done", {1}, 0, 2, done), IsOk());
  EXPECT_THAT(done, ElementsAre(false, true));
  EXPECT_THAT(file->Texts("note"), IsOkAndHolds(std::vector<std::string>{"a", "é"}));
  EXPECT_THAT(file->Texts("note", 1, 1), IsOkAndHolds(std::vector<std::string>{"é"}));
  EXPECT_THAT(file->Texts("done"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("holds bool where text")));
}

TEST_F(ParquetFileTest, ReadsVariableFixedAndNestedLists) {
  const ArrayPtr values = Plain<arrow::FloatBuilder, float>({0, 1, 2, 3, 4, 5, 6, 7});
  const auto fixed = arrow::FixedSizeListArray::FromArrays(values, 2);
  const auto file = WriteAndRead({{"variable", Lists({2, 2, 2, 2}, values)},
                                  {"fixed", *fixed},
                                  {"nested", Lists({1, 1, 1, 1}, Lists({2, 2, 2, 2}, values))}},
                                 /*row_group=*/3);  // the ranges below cross two groups
  ASSERT_THAT(file, IsOk());
  for (const char* name : {"variable", "fixed", "nested"}) {
    SCOPED_TRACE(name);
    std::vector<float> out(4, -1.0F);
    const std::vector<int64_t> shape =
        name == std::string("nested") ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2};
    EXPECT_THAT(file->CopyFloats(name, shape, 2, 2, out.data()), IsOk());
    EXPECT_THAT(out, ElementsAre(4, 5, 6, 7));
  }
}

TEST_F(ParquetFileTest, ReadsScalarsStoredAsListsOfOne) {
  const auto file =
      WriteAndRead({{"x", Lists({1, 1}, Plain<arrow::Int64Builder, int64_t>({7, 8}))}});
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->Integers("x"), IsOkAndHolds(std::vector<int64_t>{7, 8}));
}

TEST_F(ParquetFileTest, RefusesOtherWidthsWithRowAndSizes) {
  const ArrayPtr values = Plain<arrow::FloatBuilder, float>({0, 1, 2, 3, 4});
  const auto file = WriteAndRead(
      {{"x", Lists({2, 2, 1}, values)}, {"y", Plain<arrow::FloatBuilder, float>({0, 1, 2})}},
      /*row_group=*/2);
  ASSERT_THAT(file, IsOk());
  std::vector<float> out(6);
  EXPECT_THAT(file->CopyFloats("x", {2}, 0, 3, out.data()),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(file_.string()),
                             HasSubstr("column 'x'"),
                             HasSubstr("row 2: 1 values instead of 2"))));
  EXPECT_THAT(file->CopyFloats("y", {2}, 0, 3, out.data()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("holds float where a list of 2")));
  EXPECT_THAT(file->CopyFloats("z", {1}, 0, 3, out.data()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("the column 'z' is missing")));
}

TEST_F(ParquetFileTest, RefusesMissingValues) {
  arrow::FloatBuilder builder;
  ASSERT_TRUE(builder.Append(1.0F).ok());
  ASSERT_TRUE(builder.AppendNull().ok());
  const auto file = WriteAndRead({{"x", *builder.Finish()}});
  ASSERT_THAT(file, IsOk());
  std::vector<float> out(2);
  EXPECT_THAT(file->CopyFloats("x", {1}, 0, 2, out.data()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no value")));
  EXPECT_THAT(file->CopyFloats("x", {1}, 0, 1, out.data()), IsOk());
}

TEST_F(ParquetFileTest, ReadsImagesAsBytesOrPaths) {
  arrow::BinaryBuilder bytes;
  ASSERT_TRUE(bytes.Append("png").ok());
  ASSERT_TRUE(bytes.AppendNull().ok());
  const auto group = arrow::StructArray::Make(
      {*bytes.Finish(), Plain<arrow::StringBuilder, std::string>({"", "images/1.png"})},
      std::vector<std::string>{"bytes", "path"});
  const auto file = WriteAndRead({{"camera", *group}});
  ASSERT_THAT(file, IsOk());
  const auto images = file->Images("camera", 0, 2);
  ASSERT_THAT(images, IsOk());
  EXPECT_EQ((*images)[0].bytes, "png");
  EXPECT_EQ((*images)[1].bytes, "");
  EXPECT_EQ((*images)[1].path, "images/1.png");
}

TEST_F(ParquetFileTest, ReadsOnlyTheNamedColumns) {
  ASSERT_THAT(WriteAndRead({{"a", Plain<arrow::Int64Builder, int64_t>({1})},
                            {"b", Plain<arrow::Int64Builder, int64_t>({2})}}),
              IsOk());
  const auto file = ParquetFile::Read(file_, {"b", "c"});
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->column_names(), ElementsAre("b"));
  EXPECT_TRUE(file->Has("b"));
  EXPECT_FALSE(file->Has("a"));
}

/// A cut at any place, or any byte changed, is an error or a readable file, never a crash.
TEST_F(ParquetFileTest, SaysWhichFileIsCut) {
  ASSERT_THAT(WriteAndRead({{"x", Plain<arrow::Int64Builder, int64_t>({1, 2, 3})}}), IsOk());
  const auto whole = ReadFile(file_.string());
  ASSERT_THAT(whole, IsOk());
  for (size_t size = 0; size < whole->size(); size += 7) {
    folder_.Write("cut.parquet", whole->substr(0, size));
    EXPECT_THAT(
        ParquetFile::Read(folder_.path() / "cut.parquet"),
        StatusIs(StatusCode::kDataLoss,
                 AllOf(HasSubstr("cut.parquet"), HasSubstr(fmt::format("({} bytes)", size)))));
  }
  for (size_t at = 0; at < whole->size(); ++at) {
    std::string damaged = *whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    folder_.Write("damaged.parquet", damaged);
    const auto file = ParquetFile::Read(folder_.path() / "damaged.parquet");
    if (file.ok()) {
      (void)file->Integers("x").ok();
    }
  }
  EXPECT_THAT(ParquetFile::Read(folder_.path() / "none.parquet"),
              StatusIs(StatusCode::kNotFound, HasSubstr("none.parquet")));
}

}  // namespace
}  // namespace lr::worker
