#pragma once
/// Where the Hub is and whether this process may use it, from the environment variables that
/// huggingface_hub itself reads (checkpoints.md 3.15). Nothing here touches the network; the
/// token's file and PATH are looked at. Any thread.

#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"

namespace lr::worker {

struct HubSettings {
  std::string endpoint;  ///< HF_ENDPOINT, default https://huggingface.co; no slash at its end
  bool is_offline = false;
  std::string token;    ///< HF_TOKEN, else the token file's text; empty: none. Never logged
  std::string command;  ///< the `hf` program on PATH; empty: none
};

HubSettings ReadHubSettings(const EnvironmentReader& environment);

/// (pure) Publishing can be tried; else the reason and what helps: kFailedPrecondition.
Status CheckCanPublish(const HubSettings& settings);

}  // namespace lr::worker
