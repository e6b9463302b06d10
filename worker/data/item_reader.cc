#include "worker/data/item_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <list>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "common/base/text.h"
#include "common/io/atomic_file.h"
#include "worker/data/frame_table.h"
#include "worker/data/lerobot_dataset.h"
#include "worker/data/video_decoder.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// Open videos, the least recently used of them closed first.
class DecoderCache {
 public:
  explicit DecoderCache(int64_t limit) : limit_(limit) {}

  Result<VideoDecoder*> Open(const fs::path& path) {
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->first == path) {
        open_.splice(open_.begin(), open_, it);
        return open_.front().second.get();
      }
    }
    LR_ASSIGN(std::unique_ptr<VideoDecoder> decoder, VideoDecoder::Open(path));
    if (limit_ > 0 && static_cast<int64_t>(open_.size()) == limit_) {
      open_.pop_back();
    }
    open_.emplace_front(path, std::move(decoder));
    return open_.front().second.get();
  }

 private:
  int64_t limit_;
  std::list<std::pair<fs::path, std::unique_ptr<VideoDecoder>>> open_;
};

/// One wanted frame of a video and where it goes.
struct VideoQuery {
  double seconds = 0.0;
  uint8_t* out = nullptr;
  Row row;  ///< of the sample, for messages
  int64_t episode = 0;
};

}  // namespace

class ItemReader::Impl {
 public:
  Impl(std::shared_ptr<const LeRobotDataset> dataset, int64_t cache_size)
      : dataset_(std::move(dataset)), decoders_(cache_size) {}

  Result<Batch> ReadBatch(const std::vector<Row>& rows, bool pin_memory) {
    Batch batch;
    const auto options = at::TensorOptions().pinned_memory(pin_memory);
    for (const auto& [key, column] : dataset_->frames().columns()) {
      batch.tensors[key] = Gather(key, column, rows, options, batch);
    }
    for (const auto& [key, cells] : dataset_->frames().images()) {
      LR_TRY(ReadPictures(key, cells, rows, options, batch));
    }
    for (const std::string& camera : dataset_->metadata().info().video_keys()) {
      LR_TRY(ReadVideo(camera, rows, options, batch));
    }
    const at::Tensor& tasks = dataset_->frames().columns().at("task_index");
    for (const Row row : rows) {
      const int64_t task = tasks.data_ptr<int64_t>()[row.position];
      const std::string* text = dataset_->metadata().FindTask(task);
      if (text == nullptr) {
        return DataLoss("row {}: task {} is not in meta/tasks.parquet", row.position, task);
      }
      batch.task.push_back(*text);
    }
    return batch;
  }

 private:
  const std::vector<int64_t>* Window(const std::string& key) const {
    const auto it = dataset_->options().windows.find(key);
    return it == dataset_->options().windows.end() ? nullptr : &it->second;
  }

  /// The rows behind a sample and its window: {row, is_pad} per offset, one entry without a window.
  std::vector<std::pair<Row, bool>> RowsOf(Row row, const std::vector<int64_t>* window) const {
    if (window == nullptr) {
      return {{row, false}};
    }
    const EpisodeRange& range = dataset_->ranges().At(row);
    const Frame current = {range.from.number + row.position - range.first_row.position};
    std::vector<std::pair<Row, bool>> rows;
    rows.reserve(window->size());
    for (const int64_t offset : *window) {
      const WindowFrame frame = FrameAtOffset(current, offset, range.from, range.to);
      rows.emplace_back(Row{range.first_row.position + frame.frame.number - range.from.number},
                        frame.is_pad);
    }
    return rows;
  }

  /// [B, (T,) ...] with the padding mask under `<key>_is_pad` for windowed keys.
  at::Tensor Gather(const std::string& key,
                    const at::Tensor& column,
                    const std::vector<Row>& rows,
                    const at::TensorOptions& options,
                    Batch& batch) const {
    const std::vector<int64_t>* window = Window(key);
    std::vector<int64_t> shape = {static_cast<int64_t>(rows.size())};
    bool* pad = nullptr;
    if (window != nullptr) {
      shape.push_back(static_cast<int64_t>(window->size()));
      pad = MakePadMask(key, rows, *window, options, batch);
    }
    shape.insert(shape.end(), column.sizes().begin() + 1, column.sizes().end());
    at::Tensor out = at::empty(shape, options.dtype(column.scalar_type()));
    const size_t bytes =
        static_cast<size_t>(column.numel() / column.size(0)) * column.element_size();
    const auto* source = static_cast<const char*>(column.const_data_ptr());
    auto* target = static_cast<char*>(out.mutable_data_ptr());
    for (const Row row : rows) {
      for (const auto& [from, is_pad] : RowsOf(row, window)) {
        std::copy_n(source + static_cast<size_t>(from.position) * bytes, bytes, target);
        target += bytes;
        if (pad != nullptr) {
          *pad++ = is_pad;
        }
      }
    }
    return out;
  }

  static bool* MakePadMask(const std::string& key,
                           const std::vector<Row>& rows,
                           const std::vector<int64_t>& window,
                           const at::TensorOptions& options,
                           Batch& batch) {
    at::Tensor& mask = batch.tensors[key + "_is_pad"];
    mask = at::zeros({static_cast<int64_t>(rows.size()), static_cast<int64_t>(window.size())},
                     options.dtype(at::kBool));
    return mask.data_ptr<bool>();
  }

  /// Allocates [B, (T,) 3, H, W] and its padding mask.
  at::Tensor AllocateCamera(const std::string& key,
                            const std::vector<Row>& rows,
                            PictureSize size,
                            const at::TensorOptions& options,
                            Batch& batch) const {
    std::vector<int64_t> shape = {static_cast<int64_t>(rows.size())};
    if (const std::vector<int64_t>* window = Window(key)) {
      shape.push_back(static_cast<int64_t>(window->size()));
      bool* pad = MakePadMask(key, rows, *window, options, batch);
      for (const Row row : rows) {
        for (const auto& [from, is_pad] : RowsOf(row, window)) {
          *pad++ = is_pad;
        }
      }
    }
    shape.insert(shape.end(), {3, size.height, size.width});
    batch.tensors[key] = at::empty(shape, options);
    return batch.tensors[key];
  }

  Status ReadPictures(const std::string& key,
                      const std::vector<StoredImage>& cells,
                      const std::vector<Row>& rows,
                      const at::TensorOptions& options,
                      Batch& batch) const {
    at::Tensor out;
    float* target = nullptr;
    PictureSize size;
    for (const Row row : rows) {
      for (const auto& [from, is_pad] : RowsOf(row, Window(key))) {
        LR_ASSIGN(const Picture picture,
                  LoadPicture(cells[static_cast<size_t>(from.position)])
                      .WithContext("row {}, camera {}", row.position, key));
        if (!out.defined()) {
          size = picture.size;
          out = AllocateCamera(key, rows, size, options.dtype(at::kFloat), batch);
          target = out.data_ptr<float>();
        }
        if (picture.size != size) {
          return InvalidArgument("row {}, camera {}: a picture of {}x{} among pictures of {}x{}",
                                 row.position,
                                 key,
                                 picture.size.height,
                                 picture.size.width,
                                 size.height,
                                 size.width);
        }
        const size_t pixels = picture.rgb.size() / 3;
        for (size_t channel = 0; channel < 3; ++channel) {
          for (size_t i = 0; i < pixels; ++i) {
            *target++ = static_cast<float>(picture.rgb[3 * i + channel]) / 255.0F;
          }
        }
      }
    }
    return {};
  }

  Result<Picture> LoadPicture(const StoredImage& cell) const {
    if (!cell.bytes.empty()) {
      return DecodePicture(cell.bytes);
    }
    const fs::path path = fs::path(cell.path).is_absolute()
                              ? fs::path(cell.path)
                              : dataset_->metadata().root() / cell.path;
    LR_ASSIGN(const std::string bytes, ReadFile(path.string()));
    return DecodePicture(bytes).WithContext("'{}'", path.string());
  }

  /// Time of a row inside its episode: exact from the frame number where the stored float32 is a
  /// rounding of it, since float32 is too coarse for long episodes.
  double SecondsOf(Row row) const {
    const auto& columns = dataset_->frames().columns();
    const double stored = columns.at("timestamp").data_ptr<float>()[row.position];
    const auto fps = static_cast<double>(dataset_->fps());
    const double frames = std::round(stored * fps);
    return std::abs(stored * fps - frames) < 0.02 ? frames / fps : stored;
  }

  Status ReadVideo(const std::string& camera,
                   const std::vector<Row>& rows,
                   const at::TensorOptions& options,
                   Batch& batch) {
    std::map<fs::path, std::vector<VideoQuery>> queries;  // by file: each is decoded front to back
    std::vector<std::pair<fs::path, VideoQuery>> wanted;
    for (const Row row : rows) {
      for (const auto& [from, is_pad] : RowsOf(row, Window(camera))) {
        const int64_t episode = dataset_->ranges().At(from).episode;
        const EpisodeRecord& record = dataset_->metadata().episodes()[static_cast<size_t>(episode)];
        LR_ASSIGN(fs::path file, dataset_->metadata().VideoFile(record, camera));
        const double seconds = record.videos.at(camera).from_timestamp + SecondsOf(from);
        wanted.push_back({std::move(file), {seconds, nullptr, row, episode}});
      }
    }
    LR_ASSIGN(VideoDecoder * first, decoders_.Open(wanted.front().first));
    const PictureSize size = first->size();
    at::Tensor out = AllocateCamera(camera, rows, size, options.dtype(at::kByte), batch);
    const size_t bytes = 3 * static_cast<size_t>(size.height) * static_cast<size_t>(size.width);
    auto* target = out.data_ptr<uint8_t>();
    for (auto& [file, query] : wanted) {
      query.out = target;
      target += bytes;
      queries[file].push_back(query);
    }
    for (auto& [file, list] : queries) {
      LR_TRY(DecodeFile(camera, file, list, size));
    }
    return {};
  }

  Status DecodeFile(const std::string& camera,
                    const fs::path& file,
                    std::vector<VideoQuery>& queries,
                    PictureSize size) {
    LR_ASSIGN(VideoDecoder * decoder, decoders_.Open(file));
    if (decoder->size() != size) {
      return InvalidArgument("camera {}: '{}' has {}x{} pixels, other files {}x{}",
                             camera,
                             file.string(),
                             decoder->size().height,
                             decoder->size().width,
                             size.height,
                             size.width);
    }
    std::stable_sort(queries.begin(), queries.end(), [](const VideoQuery& a, const VideoQuery& b) {
      return a.seconds < b.seconds;
    });
    for (const VideoQuery& query : queries) {
      const Status decoded =
          decoder->Decode({query.seconds}, dataset_->options().tolerance_s, {query.out});
      if (!decoded.ok()) {
        return decoded.WithContext(
            "row {}, episode {}, camera {} (leave the episode out with "
            "--dataset.exclude_episodes=[{}])",
            query.row.position,
            query.episode,
            camera,
            query.episode);
      }
    }
    return {};
  }

  std::shared_ptr<const LeRobotDataset> dataset_;
  DecoderCache decoders_;
};

ItemReader::ItemReader(std::shared_ptr<const LeRobotDataset> dataset, int64_t decoder_cache_size)
    : impl_(std::make_unique<Impl>(std::move(dataset), decoder_cache_size)) {}

ItemReader::~ItemReader() = default;
ItemReader::ItemReader(ItemReader&&) noexcept = default;

Result<Batch> ItemReader::ReadBatch(const std::vector<Row>& rows, bool pin_memory) {
  return impl_->ReadBatch(rows, pin_memory);
}

Result<int64_t> DecoderCacheSizeFromEnvironment() {
  constexpr const char* kName = "LEROBOT_VIDEO_DECODER_CACHE_SIZE";
  const char* text = std::getenv(kName);  // NOLINT(concurrency-mt-unsafe): nobody writes it
  if (text == nullptr) {
    return 100;
  }
  const std::string value = text;
  if (value.empty() || value == "none" || value == "None" || value == "-1") {
    return 0;
  }
  const std::optional<int64_t> count = ParseInt(value);
  if (!count || *count < 1) {
    return InvalidArgument("{}={}: expected a count of at least 1, or none", kName, value);
  }
  return *count;
}

}  // namespace lr::worker
