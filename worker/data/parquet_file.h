#pragma once
/// Columns out of parquet files, with every doubt about them turned into a message: the border to
/// Arrow. Reads whole columns into plain vectors or caller-owned memory. Any thread; blocking.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace arrow {
class ChunkedArray;
class Table;
}  // namespace arrow

namespace lr::worker {

/// An encoded picture stored in a table: its bytes, or the path of a file that holds them.
struct StoredImage {
  std::string bytes;
  std::string path;
};

class ParquetFile {
 public:
  /// Reads the file's footer and the named columns (all when empty). A damaged or cut file is an
  /// error with its path and size.
  static Result<ParquetFile> Read(const std::filesystem::path& path,
                                  const std::vector<std::string>& columns = {});

  ParquetFile(ParquetFile&& other) noexcept;
  ParquetFile& operator=(ParquetFile&& other) noexcept;
  ~ParquetFile();

  const std::filesystem::path& path() const { return path_; }

  int64_t num_rows() const;
  bool Has(const std::string& column) const;
  std::vector<std::string> column_names() const;

  Result<std::vector<int64_t>> Integers(const std::string& column) const;
  Result<std::vector<double>> Numbers(const std::string& column) const;
  Result<std::vector<std::string>> Texts(const std::string& column) const;
  Result<std::vector<std::string>> Texts(const std::string& column,
                                         int64_t first,
                                         int64_t count) const;
  Result<std::vector<std::vector<std::string>>> TextLists(const std::string& column) const;
  Result<std::vector<StoredImage>> Images(const std::string& column,
                                          int64_t first,
                                          int64_t count) const;

  /// Rows [first, first + count) of a numeric column, flattened row-major. `shape` is that of one
  /// row; [1] also stands for a plain scalar. Lists of another length are an error with row and
  /// both sizes.
  Status CopyFloats(const std::string& column,
                    const std::vector<int64_t>& shape,
                    int64_t first,
                    int64_t count,
                    float* out) const;
  Status CopyIntegers(const std::string& column,
                      const std::vector<int64_t>& shape,
                      int64_t first,
                      int64_t count,
                      int64_t* out) const;
  Status CopyBooleans(const std::string& column,
                      const std::vector<int64_t>& shape,
                      int64_t first,
                      int64_t count,
                      bool* out) const;

 private:
  ParquetFile(std::filesystem::path path, std::shared_ptr<arrow::Table> table);
  Result<std::shared_ptr<arrow::ChunkedArray>> Column(const std::string& name) const;

  std::filesystem::path path_;
  std::shared_ptr<arrow::Table> table_;
};

}  // namespace lr::worker
