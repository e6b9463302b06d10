// See the header.
#include "worker/hub/hub_settings.h"

#include <filesystem>
#include <unistd.h>

#include "common/base/text.h"
#include "common/io/atomic_file.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestToken = 4096;

/// As huggingface_hub reads switches.
bool IsTrue(std::string value) {
  for (char& letter : value) {
    letter = static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
  }
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string TokenFile(const EnvironmentReader& environment) {
  if (const auto path = environment("HF_TOKEN_PATH")) {
    return *path;
  }
  if (const auto home = environment("HF_HOME")) {
    return *home + "/token";
  }
  const auto cache = environment("XDG_CACHE_HOME");
  return cache.value_or(environment("HOME").value_or("") + "/.cache") + "/huggingface/token";
}

std::string FindOnPath(const std::string& name, const std::string& path) {
  for (const std::string& folder : Split(path, ':')) {
    const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (fs::is_regular_file(program, error) && access(program.c_str(), X_OK) == 0) {
      return program.string();
    }
  }
  return "";
}

}  // namespace

HubSettings ReadHubSettings(const EnvironmentReader& environment) {
  HubSettings settings;
  settings.endpoint = environment("HF_ENDPOINT").value_or("");
  while (settings.endpoint.ends_with('/')) {
    settings.endpoint.pop_back();
  }
  if (settings.endpoint.empty()) {
    settings.endpoint = "https://huggingface.co";
  }
  settings.is_offline = IsTrue(environment("HF_HUB_OFFLINE").value_or(""));
  settings.token = std::string(Trim(environment("HF_TOKEN").value_or("")));
  if (settings.token.empty()) {
    const Result<std::string> text = ReadFile(TokenFile(environment), kLongestToken);
    settings.token = text.ok() ? std::string(Trim(*text)) : "";
  }
  settings.command = FindOnPath("hf", environment("PATH").value_or(""));
  return settings;
}

Status CheckCanPublish(const HubSettings& settings) {
  if (settings.is_offline) {
    return FailedPrecondition("HF_HUB_OFFLINE is set: the Hub is not contacted");
  }
  if (settings.command.empty()) {
    return FailedPrecondition(
        "the command `hf` is not on PATH (pip install huggingface_hub brings it)");
  }
  if (settings.token.empty()) {
    return FailedPrecondition("no access token: set HF_TOKEN or run `hf auth login`");
  }
  return {};
}

}  // namespace lr::worker
