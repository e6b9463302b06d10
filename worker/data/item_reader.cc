/// Batches from columns, pictures and videos; the part that runs for every sample of a training
/// run.
#include "worker/data/item_reader.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/empty.h>

#include "common/io/atomic_file.h"
#include "worker/data/decoder_cache.h"
#include "worker/data/depth_codes.h"
#include "worker/data/frame_table.h"
#include "worker/data/lerobot_dataset.h"
#include "worker/data/picture_decoder.h"

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// A row that a sample shows: its own, or a neighbour by its window.
struct ShownRow {
  Row row;
  size_t episode = 0;  ///< position in the dataset's ranges
  bool is_pad = false;
};

/// One wanted frame of a video and the number of its place in the batch.
struct VideoQuery {
  size_t file = 0;
  double seconds = 0.0;
  int64_t slot = 0;
  ShownRow shown;
};

/// Seconds since the episode's start. float32 is too coarse for long episodes, so a stored value
/// that is a rounding of k / fps counts as exactly that.
double ExactSeconds(double stored, double fps) {
  const double frames = std::round(stored * fps);
  const double rounding = stored * 1.2e-7 + 1e-6;
  return std::abs(stored - frames / fps) <= rounding ? frames / fps : stored;
}

}  // namespace

class ItemReader::Impl {
 public:
  Impl(std::shared_ptr<const LeRobotDataset> dataset, int64_t cache_size)
      : dataset_(std::move(dataset)), decoders_(cache_size), pictures_(PictureDecoder::Create()) {
    for (const auto& [key, camera] : dataset_->metadata().info().cameras) {
      if (camera.is_depth) {
        distances_[key] = DepthByCode(camera, dataset_->options().depth_in_millimetres);
      }
    }
  }

  Result<Batch> ReadBatch(const std::vector<Row>& rows, bool pin_memory) {
    memory_ = at::TensorOptions().pinned_memory(pin_memory);
    Batch batch;
    for (const auto& [key, column] : dataset_->frames().columns()) {
      ReadColumn(key, column, rows, batch);
    }
    for (const auto& [key, cells] : dataset_->frames().images()) {
      LR_TRY(ReadPictures(key, cells, rows, batch));
    }
    for (const CameraFiles& camera : dataset_->videos()) {
      LR_TRY(ReadVideo(camera, rows, batch));
    }
    LR_TRY(ReadTasks(rows, batch));
    return batch;
  }

 private:
  /// The rows that `key` shows for these samples: one each, or one per offset of its window.
  std::vector<ShownRow> Shown(const std::string& key, const std::vector<Row>& rows) const {
    static const std::vector<int64_t> kCurrentOnly = {0};
    const std::vector<int64_t>* window = Window(key);
    const std::vector<int64_t>& offsets = window == nullptr ? kCurrentOnly : *window;
    std::vector<ShownRow> shown;
    shown.reserve(rows.size() * offsets.size());
    for (const Row row : rows) {
      const EpisodeRange& range = dataset_->ranges().At(row);
      const auto episode = static_cast<size_t>(&range - dataset_->ranges().ranges().data());
      const Frame current = {range.from.number + row.position - range.first_row.position};
      for (const int64_t offset : offsets) {
        const WindowFrame frame = FrameAtOffset(current, offset, range.from, range.to);
        const Row neighbour = {range.first_row.position + frame.frame.number - range.from.number};
        shown.push_back({neighbour, episode, frame.is_pad});
      }
    }
    return shown;
  }

  const std::vector<int64_t>* Window(const std::string& key) const {
    const auto it = dataset_->options().windows.find(key);
    return it == dataset_->options().windows.end() ? nullptr : &it->second;
  }

  /// [B, (T,) item…] under `key`; with a window also the mask [B, T] under `<key>_is_pad`.
  at::Tensor Allocate(const std::string& key,
                      const std::vector<ShownRow>& shown,
                      int64_t samples,
                      at::IntArrayRef item,
                      at::ScalarType dtype,
                      Batch& batch) const {
    std::vector<int64_t> shape = {samples};
    if (const std::vector<int64_t>* window = Window(key)) {
      shape.push_back(static_cast<int64_t>(window->size()));
      at::Tensor mask = at::empty(shape, memory_.dtype(at::kBool));
      std::transform(shown.begin(), shown.end(), mask.data_ptr<bool>(), [](const ShownRow& row) {
        return row.is_pad;
      });
      batch.tensors[key + "_is_pad"] = std::move(mask);
    }
    shape.insert(shape.end(), item.begin(), item.end());
    return batch.tensors[key] = at::empty(shape, memory_.dtype(dtype));
  }

  void ReadColumn(const std::string& key,
                  const at::Tensor& column,
                  const std::vector<Row>& rows,
                  Batch& batch) const {
    const std::vector<ShownRow> shown = Shown(key, rows);
    const at::Tensor out = Allocate(key,
                                    shown,
                                    static_cast<int64_t>(rows.size()),
                                    column.sizes().slice(1),
                                    column.scalar_type(),
                                    batch);
    const size_t bytes = column.nbytes() / static_cast<size_t>(column.size(0));
    const auto* source = static_cast<const char*>(column.const_data_ptr());
    auto* target = static_cast<char*>(out.mutable_data_ptr());
    for (const ShownRow& from : shown) {
      std::copy_n(source + static_cast<size_t>(from.row.position) * bytes, bytes, target);
      target += bytes;
    }
  }

  Status ReadTasks(const std::vector<Row>& rows, Batch& batch) const {
    const auto* tasks = dataset_->frames().columns().at("task_index").const_data_ptr<int64_t>();
    for (const Row row : rows) {
      const std::string* text = dataset_->metadata().FindTask(tasks[row.position]);
      if (text == nullptr) {
        return DataLoss("frame {}: its task_index {} is not in meta/tasks.parquet",
                        dataset_->ranges().ToFrame(row).number,
                        tasks[row.position]);
      }
      batch.task.push_back(*text);
    }
    return {};
  }

  /// Who is concerned, in front of what went wrong.
  std::string Place(const ShownRow& shown, const std::string& camera) const {
    const EpisodeRange& range = dataset_->ranges().ranges()[shown.episode];
    const int64_t in_episode = shown.row.position - range.first_row.position;
    return fmt::format("sample {} (frame {} of episode {}), camera {}",
                       range.from.number + in_episode,
                       in_episode,
                       range.episode,
                       camera);
  }

  Status ReadPictures(const std::string& key,
                      const std::vector<StoredImage>& cells,
                      const std::vector<Row>& rows,
                      Batch& batch) {
    const std::vector<ShownRow> shown = Shown(key, rows);
    float* target = nullptr;
    PictureSize first;
    for (const ShownRow& from : shown) {
      LR_ASSIGN(const PictureSize size,
                LoadPicture(cells[static_cast<size_t>(from.row.position)])
                    .WithContext("{}", Place(from, key)));
      if (target == nullptr) {
        first = size;
        target = Allocate(key,
                          shown,
                          static_cast<int64_t>(rows.size()),
                          {3, size.height, size.width},
                          at::kFloat,
                          batch)
                     .data_ptr<float>();
      }
      if (size != first) {
        return InvalidArgument("{}: a picture of {}x{} among pictures of {}x{} (width x height)",
                               Place(from, key),
                               size.width,
                               size.height,
                               first.width,
                               first.height);
      }
      target = std::transform(planes_.begin(), planes_.end(), target, [](uint8_t level) {
        return static_cast<float>(level) / 255.0F;
      });
    }
    return {};
  }

  /// The picture's planes into planes_; the bytes lie in the table or in a file that it names.
  Result<PictureSize> LoadPicture(const StoredImage& cell) {
    if (!cell.bytes.empty()) {
      return pictures_->Decode(cell.bytes, planes_);
    }
    if (cell.path.empty()) {
      return DataLoss("the table holds neither the bytes nor the path of this picture");
    }
    const fs::path path =
        dataset_->metadata().root() / cell.path;  // an absolute path stays as it is
    LR_ASSIGN(const std::string bytes, ReadFile(path.string()));
    return pictures_->Decode(bytes, planes_).WithContext("'{}'", path.string());
  }

  /// What a camera's batch needs, in the order of files and of time: each file is read front to
  /// back.
  std::vector<VideoQuery> Queries(const CameraFiles& camera,
                                  const std::vector<ShownRow>& shown) const {
    const auto* stored = dataset_->frames().columns().at("timestamp").const_data_ptr<float>();
    const auto fps = static_cast<double>(dataset_->fps());
    std::vector<VideoQuery> queries;
    queries.reserve(shown.size());
    for (const ShownRow& from : shown) {
      const CameraFiles::Place& place = camera.episodes[from.episode];
      const double seconds = place.from_timestamp + ExactSeconds(stored[from.row.position], fps);
      queries.push_back({place.file, seconds, static_cast<int64_t>(queries.size()), from});
    }
    std::sort(queries.begin(), queries.end(), [](const VideoQuery& a, const VideoQuery& b) {
      return std::tie(a.file, a.seconds) < std::tie(b.file, b.seconds);
    });
    return queries;
  }

  Status ReadVideo(const CameraFiles& camera, const std::vector<Row>& rows, Batch& batch) {
    const std::vector<ShownRow> shown = Shown(camera.camera, rows);
    const int64_t channels = camera.is_depth ? 1 : 3;
    at::Tensor out;
    PictureSize first;
    for (const VideoQuery& query : Queries(camera, shown)) {
      const std::string& file = camera.files[query.file];
      LR_ASSIGN(VideoDecoder * decoder,
                decoders_.Get(file).WithContext("{}", Place(query.shown, camera.camera)));
      if (!out.defined()) {
        first = decoder->size();
        out = Allocate(camera.camera,
                       shown,
                       static_cast<int64_t>(rows.size()),
                       {channels, first.height, first.width},
                       camera.is_depth ? at::kFloat : at::kByte,
                       batch);
      }
      if (decoder->size() != first) {
        return InvalidArgument(
            "camera {}: '{}' has {}x{} pixels, other files {}x{} (width x height)",
            camera.camera,
            file,
            decoder->size().width,
            decoder->size().height,
            first.width,
            first.height);
      }
      LR_TRY(DecodeInto(camera, query, *decoder, channels * first.pixels(), out));
    }
    return {};
  }

  Status DecodeInto(const CameraFiles& camera,
                    const VideoQuery& query,
                    VideoDecoder& decoder,
                    int64_t numbers,
                    at::Tensor& out) {
    const double tolerance_s = dataset_->options().tolerance_s;
    const Status decoded =
        camera.is_depth
            ? decoder.ReadDepth(query.seconds,
                                tolerance_s,
                                distances_.at(camera.camera),
                                out.data_ptr<float>() + query.slot * numbers)
            : decoder.ReadRgb(
                  query.seconds, tolerance_s, out.data_ptr<uint8_t>() + query.slot * numbers);
    if (decoded.ok()) {
      return {};
    }
    const int64_t episode = dataset_->ranges().ranges()[query.shown.episode].episode;
    return decoded.WithContext("{} (leave the episode out with --dataset.exclude_episodes=[{}])",
                               Place(query.shown, camera.camera),
                               episode);
  }

  std::shared_ptr<const LeRobotDataset> dataset_;
  DecoderCache decoders_;
  std::unique_ptr<PictureDecoder> pictures_;
  std::map<std::string, std::vector<float>> distances_;  ///< of depth cameras, by code
  std::vector<uint8_t> planes_;                          ///< the picture decoded last
  at::TensorOptions memory_;
};

ItemReader::ItemReader(std::shared_ptr<const LeRobotDataset> dataset, int64_t decoder_cache_size)
    : impl_(std::make_unique<Impl>(std::move(dataset), decoder_cache_size)) {}

ItemReader::~ItemReader() = default;
ItemReader::ItemReader(ItemReader&&) noexcept = default;

Result<Batch> ItemReader::ReadBatch(const std::vector<Row>& rows, bool pin_memory) {
  return impl_->ReadBatch(rows, pin_memory);
}

}  // namespace lr::worker
