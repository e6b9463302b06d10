#pragma once
/// `--dataset.*`: which dataset, which part of it and how its frames are read
/// (dataset_and_training_loop.md E.10, E.12). Plain data; the field table is in
/// worker/train/train_config_fields.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/io/json.h"

namespace lr::worker {

struct ImageTransformConfig {
  double weight = 1.0;
  std::string type = "Identity";
  Json kwargs = Json::object();

  bool operator==(const ImageTransformConfig&) const = default;
};

struct ImageTransformsConfig {
  using Named = std::pair<std::string, ImageTransformConfig>;

  bool enable = false;
  int64_t max_num_transforms = 3;
  bool random_order = false;
  std::vector<Named> tfs = {
      {"brightness", {1.0, "ColorJitter", {{"brightness", {0.8, 1.2}}}}},
      {"contrast", {1.0, "ColorJitter", {{"contrast", {0.8, 1.2}}}}},
      {"saturation", {1.0, "ColorJitter", {{"saturation", {0.5, 1.5}}}}},
      {"hue", {1.0, "ColorJitter", {{"hue", {-0.05, 0.05}}}}},
      {"sharpness", {1.0, "SharpnessJitter", {{"sharpness", {0.5, 1.5}}}}},
      {"affine", {1.0, "RandomAffine", {{"degrees", {-5.0, 5.0}}, {"translate", {0.05, 0.05}}}}},
  };
};

struct DatasetConfig {
  std::string repo_id;                ///< required
  std::string repo_type = "dataset";  ///< dataset or bucket
  std::optional<std::string> root;    ///< the dataset's own folder
  std::optional<std::vector<int64_t>> episodes;
  std::optional<std::vector<int64_t>> exclude_episodes;
  ImageTransformsConfig image_transforms;
  std::optional<std::string> revision;
  bool use_imagenet_stats = true;
  std::string video_backend =
      "torchcodec";           ///< kept for Python; our decoder is FFmpeg whatever it says
  bool return_uint8 = false;  ///< kept for Python; the loop always uses uint8
  std::string depth_output_unit = "mm";  ///< mm or m
  bool streaming = false;
  double eval_split = 0.0;  ///< part of the episodes held out, [0, 1)
};

}  // namespace lr::worker
