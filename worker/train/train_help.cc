#include "worker/train/train_help.h"

#include <algorithm>

#include "common/config/group.h"
#include "worker/policies/policy_types.h"
#include "worker/train/train_config_fields.h"

namespace lr::worker {

namespace {

constexpr const char* kHead =
    "usage: lr-train --dataset.repo_id=NAME --policy.type=act [--FLAG=VALUE ...]\n\n"
    "Trains a robot policy; one process per rank, started by lr-launch or any launcher that sets\n"
    "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, or alone.\n\n"
    "Flags are --name=value or --name value; lists as '[1, 2]', maps as '{\"a\": \"b\"}', null "
    "for\n"
    "nothing. Later sources win: defaults, --config_path, the policy's preset, flags.\n\n"
    "  --config_path=FILE\n"
    "      YAML or JSON configuration, or (with --resume=true) a checkpoint to continue from.\n"
    "  --policy.path=FOLDER\n"
    "      Start from a trained policy: a folder, a checkpoint or a repository in the local "
    "cache.\n";

}  // namespace

std::string TrainHelp(const std::string& policy_type) {
  TrainConfig plain;
  config::Group group;
  DescribeTrainConfig(plain, group);
  std::vector<config::FieldHelp> help;
  group.CollectHelp("", help);
  help.erase(std::remove_if(help.begin(),
                            help.end(),
                            [](const config::FieldHelp& field) { return field.flag == "policy"; }),
             help.end());
  std::stable_partition(help.begin(), help.end(), [](const config::FieldHelp& field) {
    return field.flag.find('.') == std::string::npos && !field.starts_group;
  });
  for (const std::string& type : PolicyTypes()) {
    const Result<std::shared_ptr<PolicyConfig>> policy = MakePolicyConfig(type);
    LR_CHECK(policy.ok(), "{}", policy.status().message());
    if (!policy_type.empty() && policy_type != type) {
      continue;
    }
    help.push_back({"policy", "", "", "the policy, with --policy.type=" + type, true});
    config::Group fields;
    (*policy)->Describe(fields);
    fields.CollectHelp("policy.", help);
  }
  return kHead + config::RenderHelp(help);
}

}  // namespace lr::worker
