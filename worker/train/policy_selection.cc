#include "worker/train/policy_selection.h"

#include "common/base/text.h"
#include "common/config/group.h"
#include "worker/policies/policy_types.h"
#include "worker/train/config_files.h"

namespace lr::worker {

namespace {

using config::Argument;
using config::Group;
using config::LastOf;
using config::ShowJson;
using config::UnknownKeys;
using config::Value;

constexpr std::string_view kPrefix = "policy.";

/// `key` of the file's section when it holds text; empty otherwise.
std::string TextOf(const Json& section, const char* key) {
  const auto it = section.is_object() ? section.find(key) : section.end();
  return it != section.end() && it->is_string() ? it->get<std::string>() : "";
}

/// The configuration in the file's section.
Status FromFile(const PolicyRequest& request, SelectedPolicy& out) {
  LR_ASSIGN(out.config, PolicyConfigFromJson(request.file_policy));
  const Json& unknown = out.config->unknown_keys;
  if (unknown.empty()) {
    return {};
  }
  if (!request.from_checkpoint) {
    return InvalidArgument("unknown keys in the policy section: {}", ShowJson(unknown));
  }
  out.notes.push_back({ConfigNote::Level::kWarning,
                       "the policy has keys that this version does not know, kept as they are: " +
                           ShowJson(unknown)});
  return {};
}

/// The saved configuration of a trained policy, with the file's section on top.
Status FromPretrained(const PolicyRequest& request, const std::string& path, SelectedPolicy& out) {
  const std::string* flag = LastOf(request.arguments, "policy.pretrained_revision");
  const std::string revision =
      flag != nullptr ? *flag : TextOf(request.file_policy, "pretrained_revision");
  LR_ASSIGN(const PretrainedFolder found,
            FindPretrainedPolicy(path, revision, request.environment));
  LR_ASSIGN(const Json saved, ReadConfigFile(found.folder + "/config.json"));
  const Result<std::shared_ptr<PolicyConfig>> config = PolicyConfigFromJson(saved);
  if (!config.ok()) {
    return config.status().WithContext("'{}/config.json'", found.folder);
  }
  out.config = *config;
  if (!out.config->unknown_keys.empty()) {
    out.notes.push_back({ConfigNote::Level::kWarning,
                         fmt::format("'{}/config.json' has keys that this version does not know, "
                                     "kept as they are: {}",
                                     found.folder,
                                     ShowJson(out.config->unknown_keys))});
  }
  if (request.file_policy.is_object()) {
    Json overrides = request.file_policy;
    overrides.erase("path");
    overrides.erase("type");
    Group group;
    out.config->Describe(group);
    LR_TRY(group.ReadJson(overrides, UnknownKeys::kError, nullptr, std::string(kPrefix)));
  }
  out.config->pretrained_path = found.is_repository ? path : found.folder;
  out.weights_dir = found.folder;
  return {};
}

/// `--policy.type`: the file's section when it is of that type, else a fresh configuration.
Status FromType(const PolicyRequest& request, const std::string& type, SelectedPolicy& out) {
  if (TextOf(request.file_policy, "type") == type) {
    return FromFile(request, out);
  }
  LR_ASSIGN(out.config, MakePolicyConfig(type));
  if (request.file_policy.is_object()) {
    out.notes.push_back({ConfigNote::Level::kWarning,
                         fmt::format("--policy.type={} replaces the file's whole policy section "
                                     "(of type {})",
                                     type,
                                     TextOf(request.file_policy, "type"))});
  }
  return {};
}

/// A resume takes the checkpoint's policy; the flags of the first start may still be there.
Status FromCheckpoint(const PolicyRequest& request, SelectedPolicy& out) {
  const std::string* type = LastOf(request.arguments, "policy.type");
  const std::string saved = TextOf(request.file_policy, "type");
  if (type != nullptr && *type != saved) {
    return InvalidArgument(
        "--policy.type={}: the checkpoint '{}' holds a policy of type {}; leave the flag out",
        *type,
        request.resume_dir,
        saved);
  }
  LR_TRY(FromFile(request, out));
  if (const std::string* path = LastOf(request.arguments, "policy.path")) {
    out.notes.push_back({ConfigNote::Level::kInfo,
                         fmt::format("--policy.path={} is not read: the run continues from '{}'",
                                     *path,
                                     request.resume_dir)});
  }
  out.config->pretrained_path = request.resume_dir;
  out.weights_dir = request.resume_dir;
  return {};
}

Status Choose(const PolicyRequest& request, SelectedPolicy& out) {
  const std::string* type = LastOf(request.arguments, "policy.type");
  const std::string* path = LastOf(request.arguments, "policy.path");
  if (type != nullptr && path != nullptr) {
    return InvalidArgument(
        "Cannot specify both --policy.path={} and --policy.type={}: the type is the saved one",
        *path,
        *type);
  }
  if (!request.resume_dir.empty()) {
    return FromCheckpoint(request, out);
  }
  const std::string file_path = TextOf(request.file_policy, "path");
  if (path != nullptr || (!file_path.empty() && type == nullptr)) {
    return FromPretrained(request, path != nullptr ? *path : file_path, out);
  }
  if (!file_path.empty()) {
    return InvalidArgument(
        "Cannot specify both the file's policy path '{}' and --policy.type={}", file_path, *type);
  }
  if (type != nullptr) {
    return FromType(request, *type, out);
  }
  if (request.file_policy.is_null()) {
    return InvalidArgument("no policy: give --policy.type={} or --policy.path=FOLDER",
                           Join(PolicyTypes(), "|"));
  }
  return FromFile(request, out);
}

Status ApplyFlags(const PolicyRequest& request, PolicyConfig& config) {
  Group group;
  config.Describe(group);
  for (const Argument& argument : request.arguments) {
    if (!argument.key.starts_with(kPrefix) || argument.key == "policy.type" ||
        argument.key == "policy.path") {
      continue;
    }
    const std::string field = argument.key.substr(kPrefix.size());
    const Result<Value> value = Value::FromText(argument.text);
    const Status set = value.ok() ? group.Set(field, *value) : value.status();
    if (set.code() != StatusCode::kNotFound) {
      LR_TRY(set.WithContext("--{}={}", argument.key, argument.text));
      continue;
    }
    const std::optional<std::string> nearest = NearestName(field, group.Paths());
    return InvalidArgument(
        "unrecognized arguments: --{}={}: a policy of type {} has no such "
        "field{}",
        argument.key,
        argument.text,
        config.type,
        nearest ? fmt::format(", did you mean --policy.{}?", *nearest) : "");
  }
  return {};
}

}  // namespace

Result<SelectedPolicy> SelectPolicy(const PolicyRequest& request) {
  SelectedPolicy out;
  LR_TRY(Choose(request, out));
  LR_TRY(ApplyFlags(request, *out.config));
  // A path that stands in the configuration itself means the same as --policy.path.
  if (out.weights_dir.empty() && out.config->pretrained_path) {
    LR_ASSIGN(const PretrainedFolder found,
              FindPretrainedPolicy(*out.config->pretrained_path,
                                   out.config->pretrained_revision.value_or(""),
                                   request.environment));
    out.weights_dir = found.folder;
  }
  return out;
}

}  // namespace lr::worker
