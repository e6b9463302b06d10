// (pure) See the header.
#include "tools/lr_convert_dcp/manifest_change.h"

#include <algorithm>

namespace lr {

CheckpointManifest WithMergedFile(CheckpointManifest manifest,
                                  const CheckpointFile& merged,
                                  ShardsAre shards) {
  const std::string folder = std::string(kModelShardsFolder) + "/";
  std::erase_if(manifest.files, [&](const CheckpointFile& file) {
    return file.path == merged.path ||
           (shards == ShardsAre::kDeleted && file.path.starts_with(folder));
  });
  manifest.files.push_back(merged);
  std::sort(manifest.files.begin(), manifest.files.end(), [](const auto& a, const auto& b) {
    return a.path < b.path;
  });
  return manifest;
}

}  // namespace lr
