/// Columns of the selected episodes, gathered from the data files.
#include "worker/data/frame_table.h"

#include <algorithm>
#include <set>

#include <ATen/ops/empty.h>

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

enum class ColumnKind { kFloat, kInteger, kBoolean, kText, kImage, kSkipped };

ColumnKind KindOf(const DatasetFeature& feature) {
  const std::string& dtype = feature.dtype;
  if (dtype == "image") {
    return ColumnKind::kImage;
  }
  if (dtype == "string") {
    return ColumnKind::kText;
  }
  if (dtype == "bool") {
    return ColumnKind::kBoolean;
  }
  if (dtype.starts_with("float")) {
    return ColumnKind::kFloat;
  }
  if (dtype.starts_with("int") || dtype.starts_with("uint")) {
    return ColumnKind::kInteger;
  }
  return ColumnKind::kSkipped;  // video: in its own file; language: not read
}

/// The data files that the episodes' records name, each once, in order.
Result<std::vector<fs::path>> DataFiles(const DatasetMetadata& metadata,
                                        const EpisodeRanges& ranges) {
  std::vector<fs::path> files;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const EpisodeRange& range : ranges.ranges()) {
    const EpisodeRecord& record = metadata.episodes()[static_cast<size_t>(range.episode)];
    if (!seen.emplace(record.data_chunk_index, record.data_file_index).second) {
      continue;
    }
    LR_ASSIGN(const std::string path,
              FillPathTemplate(
                  metadata.info().data_path, record.data_chunk_index, record.data_file_index, ""));
    files.push_back(metadata.root() / path);
  }
  return files;
}

/// The columns of the data files that are read.
std::vector<std::string> ColumnNames(const DatasetInfo& info) {
  std::vector<std::string> names;
  for (const auto& [key, feature] : info.features) {
    if (KindOf(feature) != ColumnKind::kSkipped) {
      names.push_back(key);
    }
  }
  return names;
}

/// The row of `index` at which the episode's frames start, complete and in order; nullopt when they
/// are in another file.
Result<std::optional<int64_t>> FindEpisode(const std::vector<int64_t>& index,
                                           const EpisodeRange& range) {
  const auto first = std::lower_bound(index.begin(), index.end(), range.from.number);
  if (first == index.end() || *first != range.from.number) {
    return std::optional<int64_t>();
  }
  for (int64_t i = 0; i < range.length(); ++i) {
    if (i >= index.end() - first || first[i] != range.from.number + i) {
      return DataLoss("episode {}: frame {} of its frames {} to {} is not in its place",
                      range.episode,
                      range.from.number + i,
                      range.from.number,
                      range.to.number - 1);
    }
  }
  return std::optional<int64_t>(first - index.begin());
}

}  // namespace

Status FrameTable::Allocate(const DatasetInfo& info, int64_t rows) {
  try {
    for (const auto& [key, feature] : info.features) {
      AllocateColumn(key, feature, rows);
    }
  } catch (const std::exception&) {  // sizes that a damaged description claims
    return ResourceExhausted("no memory for the columns of {} frames", rows);
  }
  return {};
}

void FrameTable::AllocateColumn(const std::string& key,
                                const DatasetFeature& feature,
                                int64_t rows) {
  std::vector<int64_t> shape = {rows};
  // A policy's features keep their axis of one; bookkeeping columns are plain numbers per row.
  const bool is_policy_feature = key.starts_with("observation") || key.starts_with("action");
  if (is_policy_feature || feature.shape != std::vector<int64_t>{1}) {
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
  }
  switch (KindOf(feature)) {
    case ColumnKind::kFloat:
      columns_[key] = at::empty(shape, at::kFloat);
      break;
    case ColumnKind::kInteger:
      columns_[key] = at::empty(shape, at::kLong);
      break;
    case ColumnKind::kBoolean:
      columns_[key] = at::empty(shape, at::kBool);
      break;
    case ColumnKind::kText:
      texts_[key].resize(static_cast<size_t>(rows));
      break;
    case ColumnKind::kImage:
      images_[key].resize(static_cast<size_t>(rows));
      break;
    case ColumnKind::kSkipped:
      break;
  }
}

/// The rows of one episode, which start at row `first` of the file.
Status FrameTable::CopyRange(const ParquetFile& file,
                             const DatasetInfo& info,
                             const EpisodeRange& range,
                             int64_t first) {
  const int64_t row = range.first_row.position;
  const int64_t count = range.length();
  for (const auto& [key, feature] : info.features) {
    const ColumnKind kind = KindOf(feature);
    if (kind == ColumnKind::kSkipped) {
      continue;
    }
    if (kind == ColumnKind::kText) {
      LR_ASSIGN(std::vector<std::string> cells, file.Texts(key, first, count));
      std::move(cells.begin(), cells.end(), texts_[key].begin() + row);
      continue;
    }
    if (kind == ColumnKind::kImage) {
      LR_ASSIGN(std::vector<StoredImage> cells, file.Images(key, first, count));
      std::move(cells.begin(), cells.end(), images_[key].begin() + row);
      continue;
    }
    at::Tensor target = columns_[key].slice(0, row, row + count);
    if (kind == ColumnKind::kFloat) {
      LR_TRY(file.CopyFloats(key, feature.shape, first, count, target.data_ptr<float>()));
    } else if (kind == ColumnKind::kInteger) {
      LR_TRY(file.CopyIntegers(key, feature.shape, first, count, target.data_ptr<int64_t>()));
    } else {
      LR_TRY(file.CopyBooleans(key, feature.shape, first, count, target.data_ptr<bool>()));
    }
  }
  return {};
}

Result<std::unique_ptr<FrameTable>> FrameTable::Read(const DatasetMetadata& metadata,
                                                     const EpisodeRanges& ranges) {
  std::unique_ptr<FrameTable> table(new FrameTable());
  LR_TRY(table->Allocate(metadata.info(), ranges.num_rows()));
  LR_ASSIGN(const std::vector<fs::path> files, DataFiles(metadata, ranges));
  std::set<int64_t> found;
  for (const fs::path& path : files) {
    LR_ASSIGN(const ParquetFile file, ParquetFile::Read(path, ColumnNames(metadata.info())));
    LR_ASSIGN(const std::vector<int64_t> index, file.Integers("index"));
    for (const EpisodeRange& range : ranges.ranges()) {
      LR_ASSIGN(const std::optional<int64_t> first,
                FindEpisode(index, range).WithContext("'{}'", path.string()));
      if (first && range.length() > 0) {
        LR_TRY(table->CopyRange(file, metadata.info(), range, *first));
        found.insert(range.episode);
      }
    }
  }
  for (const EpisodeRange& range : ranges.ranges()) {
    if (range.length() > 0 && found.count(range.episode) == 0) {
      return DataLoss("episode {}: its frames {} to {} are in no data file below '{}'",
                      range.episode,
                      range.from.number,
                      range.to.number - 1,
                      (metadata.root() / "data").string());
    }
  }
  return table;
}

}  // namespace lr::worker
