#pragma once
/// Publishes a policy's folder as a model repository by the `hf` command (checkpoints.md 3.15): by
/// the converter, and at the end of a training. One process does it; blocking, for as long as the
/// upload takes. The token is never logged: it is taken out of what the command prints.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "worker/hub/hub_settings.h"

namespace lr::worker {

struct PublishRequest {
  std::filesystem::path pretrained;  ///< the folder with config.json and weights
  std::string repo_id;
  std::optional<bool> is_private;  ///< of a repository that is created
};

struct PublishOptions {
  std::function<void(std::string_view line)> log;  ///< what the command prints, and warnings
  int stop_fd = -1;                                ///< readable: the upload is ended; -1: never
  std::optional<std::chrono::milliseconds> limit;  ///< instead of UploadLimit()
};

/// The repository's address. Errors: kFailedPrecondition (CheckCanPublish), kInvalidArgument
/// (name), kNotFound (nothing to publish), kUnavailable (the command failed), kDeadlineExceeded,
/// kCancelled.
Result<std::string> Publish(const PublishRequest& request,
                            const HubSettings& settings,
                            const PublishOptions& options);

}  // namespace lr::worker
