/// The border to Arrow: its statuses and exceptions become a Status here.
#include "worker/data/parquet_file.h"

#include <algorithm>
#include <type_traits>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

namespace lr::worker {

namespace {

/// Copies element ranges of arrays into flat memory, descending through lists.
template <typename Out>
class FlatCopy {
 public:
  /// `row_shift`: what turns a row of the array into a row of the file, for messages.
  FlatCopy(const std::vector<int64_t>& shape, int64_t row_shift, Out* out)
      : shape_(shape), row_shift_(row_shift), out_(out) {}

  Status Run(const arrow::Array& array, int64_t first, int64_t count) {
    return Descend(array, first, count, 0);
  }

 private:
  /// Elements still expected below one row of dimension `depth`.
  bool IsBottom(size_t depth) const {
    return depth == shape_.size() || (depth == 0 && shape_.size() == 1 && shape_[0] == 1);
  }

  Status Descend(const arrow::Array& array, int64_t first, int64_t count, size_t depth) {
    switch (array.type_id()) {
      case arrow::Type::EXTENSION:
        return Descend(
            *static_cast<const arrow::ExtensionArray&>(array).storage(), first, count, depth);
      case arrow::Type::LIST:
        return Lists(static_cast<const arrow::ListArray&>(array), first, count, depth);
      case arrow::Type::LARGE_LIST:
        return Lists(static_cast<const arrow::LargeListArray&>(array), first, count, depth);
      case arrow::Type::FIXED_SIZE_LIST:
        return Lists(static_cast<const arrow::FixedSizeListArray&>(array), first, count, depth);
      default:
        if (!IsBottom(depth)) {
          return InvalidArgument(
              "holds {} where a list of {} is expected", array.type()->ToString(), shape_[depth]);
        }
        return Values(array, first, count);
    }
  }

  std::string Place(int64_t row, size_t depth) const {
    return depth == 0 ? fmt::format("row {}", row + row_shift_) : fmt::format("inner list {}", row);
  }

  template <typename ListArray>
  Status Lists(const ListArray& array, int64_t first, int64_t count, size_t depth) {
    if (depth == shape_.size()) {
      return InvalidArgument("holds lists where single values are expected");
    }
    for (int64_t row = first; row < first + count; ++row) {
      if (array.IsNull(row)) {
        return InvalidArgument("{}: no value", Place(row, depth));
      }
      if (static_cast<int64_t>(array.value_length(row)) != shape_[depth]) {
        return InvalidArgument("{}: {} values instead of {}",
                               Place(row, depth),
                               array.value_length(row),
                               shape_[depth]);
      }
    }
    if (count == 0) {
      return {};
    }
    return Descend(*array.values(),
                   static_cast<int64_t>(array.value_offset(first)),
                   count * shape_[depth],
                   depth + 1);
  }

  template <typename Array>
  void CopyAll(const arrow::Array& array, int64_t first, int64_t count) {
    const auto& typed = static_cast<const Array&>(array);
    for (int64_t i = first; i < first + count; ++i) {
      *out_++ = static_cast<Out>(typed.Value(i));
    }
  }

  Status Values(const arrow::Array& array, int64_t first, int64_t count) {
    if (array.null_count() > 0) {
      for (int64_t i = first; i < first + count; ++i) {
        if (array.IsNull(i)) {
          return InvalidArgument("element {}: no value", i);
        }
      }
    }
    switch (array.type_id()) {
      case arrow::Type::BOOL:
        CopyAll<arrow::BooleanArray>(array, first, count);
        return {};
      case arrow::Type::INT8:
        CopyAll<arrow::Int8Array>(array, first, count);
        return {};
      case arrow::Type::UINT8:
        CopyAll<arrow::UInt8Array>(array, first, count);
        return {};
      case arrow::Type::INT16:
        CopyAll<arrow::Int16Array>(array, first, count);
        return {};
      case arrow::Type::UINT16:
        CopyAll<arrow::UInt16Array>(array, first, count);
        return {};
      case arrow::Type::INT32:
        CopyAll<arrow::Int32Array>(array, first, count);
        return {};
      case arrow::Type::UINT32:
        CopyAll<arrow::UInt32Array>(array, first, count);
        return {};
      case arrow::Type::INT64:
        CopyAll<arrow::Int64Array>(array, first, count);
        return {};
      case arrow::Type::UINT64:
        CopyAll<arrow::UInt64Array>(array, first, count);
        return {};
      case arrow::Type::FLOAT:
        return CopyReals<arrow::FloatArray>(array, first, count);
      case arrow::Type::DOUBLE:
        return CopyReals<arrow::DoubleArray>(array, first, count);
      default:
        return Mismatch(array);
    }
  }

  static Status Mismatch(const arrow::Array& array) {
    constexpr const char* kWanted = std::is_same_v<Out, bool>       ? "true or false"
                                    : std::is_floating_point_v<Out> ? "numbers"
                                                                    : "whole numbers";
    return InvalidArgument("holds {} where {} are expected", array.type()->ToString(), kWanted);
  }

  /// Fractions go into floating-point columns only.
  template <typename Array>
  Status CopyReals(const arrow::Array& array, int64_t first, int64_t count) {
    if constexpr (std::is_floating_point_v<Out>) {
      CopyAll<Array>(array, first, count);
      return {};
    }
    return Mismatch(array);
  }

  const std::vector<int64_t>& shape_;
  int64_t row_shift_;
  Out* out_;
};

template <typename Out>
Status CopyColumn(const arrow::ChunkedArray& column,
                  const std::vector<int64_t>& shape,
                  int64_t first,
                  int64_t count,
                  Out* out) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    elements *= size;
  }
  int64_t passed = 0;
  for (const std::shared_ptr<arrow::Array>& chunk : column.chunks()) {
    const int64_t row_shift = passed;
    passed += chunk->length();
    if (first >= chunk->length()) {
      first -= chunk->length();
      continue;
    }
    const int64_t here = std::min(count, chunk->length() - first);
    LR_TRY(FlatCopy<Out>(shape, row_shift, out).Run(*chunk, first, here));
    out += here * elements;
    count -= here;
    first = 0;
    if (count == 0) {
      break;
    }
  }
  return {};
}

std::string TextOf(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) {
    return {};
  }
  switch (array.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(array).GetString(i);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(array).GetString(i);
    default:
      return {};
  }
}

bool IsText(arrow::Type::type type) {
  return type == arrow::Type::STRING || type == arrow::Type::BINARY ||
         type == arrow::Type::LARGE_STRING || type == arrow::Type::LARGE_BINARY;
}

Result<std::shared_ptr<arrow::Table>> Load(const std::string& path,
                                           const std::vector<std::string>& columns) {
  const auto failed = [&](const arrow::Status& status) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return DataLoss("'{}' ({} bytes): {}", path, error ? 0 : size, status.message());
  };
  auto input = arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ);
  if (!input.ok()) {
    return std::filesystem::exists(path) ? failed(input.status())
                                         : NotFound("'{}' does not exist", path);
  }
  auto reader = parquet::arrow::OpenFile(*input, arrow::default_memory_pool());
  if (!reader.ok()) {
    return failed(reader.status());
  }
  (*reader)->set_use_threads(false);
  std::shared_ptr<arrow::Schema> schema;
  if (const arrow::Status status = (*reader)->GetSchema(&schema); !status.ok()) {
    return failed(status);
  }
  // Top-level columns are asked for by their leaves, which parquet numbers through.
  const auto& descriptor = *(*reader)->parquet_reader()->metadata()->schema();
  std::vector<int> leaves;
  for (int leaf = 0; leaf < descriptor.num_columns(); ++leaf) {
    const std::string root = descriptor.GetColumnRoot(leaf)->name();
    if (columns.empty() || std::find(columns.begin(), columns.end(), root) != columns.end()) {
      leaves.push_back(leaf);
    }
  }
  auto table = (*reader)->ReadTable(leaves);
  if (!table.ok()) {
    return failed(table.status());
  }
  return *table;
}

}  // namespace

ParquetFile::ParquetFile(std::filesystem::path path, std::shared_ptr<arrow::Table> table)
    : path_(std::move(path)), table_(std::move(table)) {}

ParquetFile::ParquetFile(ParquetFile&& other) noexcept = default;
ParquetFile& ParquetFile::operator=(ParquetFile&& other) noexcept = default;
ParquetFile::~ParquetFile() = default;

Result<ParquetFile> ParquetFile::Read(const std::filesystem::path& path,
                                      const std::vector<std::string>& columns) {
  try {
    LR_ASSIGN(std::shared_ptr<arrow::Table> table, Load(path.string(), columns));
    return ParquetFile(path, std::move(table));
  } catch (const std::exception& error) {  // parquet throws on some damaged footers
    return DataLoss("'{}': {}", path.string(), error.what());
  }
}

int64_t ParquetFile::num_rows() const {
  return table_->num_rows();
}

bool ParquetFile::Has(const std::string& column) const {
  return table_->GetColumnByName(column) != nullptr;
}

std::vector<std::string> ParquetFile::column_names() const {
  return table_->ColumnNames();
}

Result<std::shared_ptr<arrow::ChunkedArray>> ParquetFile::Column(const std::string& name) const {
  std::shared_ptr<arrow::ChunkedArray> column = table_->GetColumnByName(name);
  if (!column) {
    return InvalidArgument("'{}': the column '{}' is missing", path_.string(), name);
  }
  return column;
}

Result<std::vector<int64_t>> ParquetFile::Integers(const std::string& column) const {
  std::vector<int64_t> values(static_cast<size_t>(num_rows()));
  LR_TRY(CopyIntegers(column, {1}, 0, num_rows(), values.data()));
  return values;
}

Result<std::vector<double>> ParquetFile::Numbers(const std::string& column) const {
  LR_ASSIGN(const auto array, Column(column));
  std::vector<double> values(static_cast<size_t>(num_rows()));
  LR_TRY(CopyColumn(*array, {1}, 0, num_rows(), values.data())
             .WithContext("'{}': column '{}'", path_.string(), column));
  return values;
}

Result<std::vector<std::string>> ParquetFile::Texts(const std::string& column) const {
  return Texts(column, 0, num_rows());
}

Result<std::vector<std::string>> ParquetFile::Texts(const std::string& column,
                                                    int64_t first,
                                                    int64_t count) const {
  LR_ASSIGN(const auto whole, Column(column));
  const auto array = whole->Slice(first, count);
  if (!IsText(array->type()->id())) {
    return InvalidArgument("'{}': column '{}' holds {} where text is expected",
                           path_.string(),
                           column,
                           array->type()->ToString());
  }
  std::vector<std::string> texts;
  for (const std::shared_ptr<arrow::Array>& chunk : array->chunks()) {
    for (int64_t i = 0; i < chunk->length(); ++i) {
      texts.push_back(TextOf(*chunk, i));
    }
  }
  return texts;
}

Result<std::vector<std::vector<std::string>>> ParquetFile::TextLists(
    const std::string& column) const {
  LR_ASSIGN(const auto array, Column(column));
  std::vector<std::vector<std::string>> lists;
  for (const std::shared_ptr<arrow::Array>& chunk : array->chunks()) {
    if (chunk->type_id() != arrow::Type::LIST) {
      return InvalidArgument("'{}': column '{}' holds {} where lists are expected",
                             path_.string(),
                             column,
                             array->type()->ToString());
    }
    const auto& list = static_cast<const arrow::ListArray&>(*chunk);
    for (int64_t i = 0; i < list.length(); ++i) {
      lists.emplace_back();
      for (int64_t at = list.value_offset(i); at < list.value_offset(i + 1); ++at) {
        lists.back().push_back(TextOf(*list.values(), at));
      }
    }
  }
  return lists;
}

Result<std::vector<StoredImage>> ParquetFile::Images(const std::string& column,
                                                     int64_t first,
                                                     int64_t count) const {
  LR_ASSIGN(const auto array, Column(column));
  std::vector<StoredImage> images;
  const auto slice = array->Slice(first, count);
  for (const std::shared_ptr<arrow::Array>& chunk : slice->chunks()) {
    if (chunk->type_id() != arrow::Type::STRUCT) {
      return InvalidArgument("'{}': column '{}' holds {} where images are expected",
                             path_.string(),
                             column,
                             array->type()->ToString());
    }
    const auto& group = static_cast<const arrow::StructArray&>(*chunk);
    const auto bytes = group.GetFieldByName("bytes");
    const auto paths = group.GetFieldByName("path");
    for (int64_t i = 0; i < group.length(); ++i) {
      images.push_back({bytes ? TextOf(*bytes, i) : "", paths ? TextOf(*paths, i) : ""});
    }
  }
  return images;
}

Status ParquetFile::CopyFloats(const std::string& column,
                               const std::vector<int64_t>& shape,
                               int64_t first,
                               int64_t count,
                               float* out) const {
  LR_ASSIGN(const auto array, Column(column));
  return CopyColumn(*array, shape, first, count, out)
      .WithContext("'{}': column '{}'", path_.string(), column);
}

Status ParquetFile::CopyIntegers(const std::string& column,
                                 const std::vector<int64_t>& shape,
                                 int64_t first,
                                 int64_t count,
                                 int64_t* out) const {
  LR_ASSIGN(const auto array, Column(column));
  return CopyColumn(*array, shape, first, count, out)
      .WithContext("'{}': column '{}'", path_.string(), column);
}

Status ParquetFile::CopyBooleans(const std::string& column,
                                 const std::vector<int64_t>& shape,
                                 int64_t first,
                                 int64_t count,
                                 bool* out) const {
  LR_ASSIGN(const auto array, Column(column));
  return CopyColumn(*array, shape, first, count, out)
      .WithContext("'{}': column '{}'", path_.string(), column);
}

}  // namespace lr::worker
