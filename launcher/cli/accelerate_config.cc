#include "launcher/cli/accelerate_config.h"

#include <filesystem>

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> HuggingFaceHome(const EnvironmentReader& environment) {
  if (const auto home = environment("HF_HOME"); home && !home->empty()) {
    return *home;
  }
  if (const auto cache = environment("XDG_CACHE_HOME"); cache && !cache->empty()) {
    return fs::path(*cache) / "huggingface";
  }
  if (const auto home = environment("HOME"); home && !home->empty()) {
    return fs::path(*home) / ".cache/huggingface";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindAccelerateConfig(const EnvironmentReader& environment) {
  const std::optional<fs::path> home = HuggingFaceHome(environment);
  if (!home) {
    return std::nullopt;
  }
  for (const char* name : {"default_config.yaml", "default_config.json"}) {
    const fs::path path = *home / "accelerate" / name;
    std::error_code error;
    if (fs::exists(path, error)) {
      return path.string();
    }
  }
  return std::nullopt;
}

}  // namespace lr::launcher
