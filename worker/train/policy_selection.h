#pragma once
/// Which policy a run trains and where its first weights come from (policies.md D.2). Reads files;
/// main thread, while the command line is parsed.

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/arguments.h"
#include "common/contract/worker_environment.h"
#include "worker/policies/policy_config.h"
#include "worker/train/config_note.h"

namespace lr::worker {

struct PolicyRequest {
  const std::vector<config::Argument>& arguments;  ///< policy.type, policy.path, policy.FIELD
  Json file_policy;                                ///< the configuration file's section; null: none
  bool from_checkpoint;    ///< that file was written by a run: unknown keys are kept
  std::string resume_dir;  ///< pretrained_model folder to continue from; empty: no resume
  const EnvironmentReader& environment;
};

struct SelectedPolicy {
  std::shared_ptr<PolicyConfig> config;  ///< with every --policy.* flag applied
  std::string weights_dir;               ///< empty: fresh weights
  std::vector<ConfigNote> notes;
};

/// `--policy.path` (or the file's `path`): the saved configuration, then the file's section, then
/// the flags. Otherwise the file's section or `--policy.type`. A resume goes by the checkpoint.
Result<SelectedPolicy> SelectPolicy(const PolicyRequest& request);

}  // namespace lr::worker
