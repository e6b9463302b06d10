// libFuzzer target: any text as a dataset's meta/info.json, and as a path template.
#include <cstddef>
#include <cstdint>
#include <string>

#include "worker/data/dataset_info.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto info = lr::worker::ParseDatasetInfo(text, "info.json", "fuzz/fuzz");
  if (info.ok()) {
    (void)info->camera_keys();
    (void)info->video_keys();
  }
  (void)lr::worker::FillPathTemplate(text, 1, 2, "camera");
  return 0;
}
