#include "worker/train/train_command_line.h"

#include <algorithm>
#include <filesystem>

#include "common/base/text.h"
#include "common/config/arguments.h"
#include "common/config/group.h"
#include "common/io/directory_lock.h"
#include "worker/train/config_files.h"
#include "worker/train/policy_selection.h"
#include "worker/train/train_config_check.h"
#include "worker/train/train_config_fields.h"
#include "worker/train/train_help.h"
#include "worker/train/unsupported.h"

namespace lr::worker {

namespace fs = std::filesystem;
using config::Argument;
using config::Group;
using config::LastOf;
using config::UnknownKeys;
using config::Value;

namespace {

/// Flags that steer the parsing and are no fields of the configuration.
bool IsSteering(const std::string& key) {
  return key == "config_path" || key == "policy.path";
}

bool IsPolicyField(const std::string& key) {
  return key.starts_with("policy.");
}

/// Sections whose parts are not declared: the whole is refused by name (unsupported.h).
bool IsOpaque(const std::string& key) {
  return key.starts_with("env.") || key.starts_with("reward_model.");
}

Result<bool> BoolFlag(const std::vector<Argument>& arguments, const char* key, bool fallback) {
  const std::string* text = LastOf(arguments, key);
  if (text != nullptr) {
    LR_ASSIGN(const Value value, Value::FromText(*text));
    LR_TRY(config::Convert<bool>::Read(value, fallback).WithContext("--{}={}", key, *text));
  }
  return fallback;
}

bool FollowsFromType(const std::string& key) {
  return key.starts_with("optimizer.") || key.starts_with("scheduler.");
}

Status Unrecognized(const Argument& argument, const std::vector<std::string>& known) {
  const std::optional<std::string> nearest = NearestName(argument.key, known);
  return InvalidArgument("unrecognized arguments: --{}={}{} (lr-train --help lists all)",
                         argument.key,
                         argument.text,
                         nearest ? fmt::format(", did you mean --{}?", *nearest) : "");
}

/// "optimizer" = {"lr": 1} also gives "optimizer.lr".
void AddKeys(const std::string& key, const Json& value, std::set<std::string>& keys) {
  keys.insert(key);
  if (value.is_object()) {
    for (const auto& [name, nested] : value.items()) {
      AddKeys(key + "." + name, nested, keys);
    }
  }
}

class CommandLineParser {
 public:
  CommandLineParser(std::vector<Argument> arguments, const ParseContext& context)
      : arguments_(std::move(arguments)), context_(context) {
    if (!context_.resume_from.empty()) {  // wins over what the first start was given
      arguments_.push_back({"resume", "true"});
      arguments_.push_back({"config_path", context_.resume_from});
    }
  }

  Result<ParsedConfig> Run() {
    Group group;
    DescribeTrainConfig(config_, group);
    LR_TRY(CheckNames(group));
    LR_TRY(ReadFile(group));
    LR_TRY(RefuseOpaqueSections());
    LR_TRY(ChoosePolicy());
    LR_TRY(ApplyPresets());
    LR_TRY(ApplyFlags(group));
    FollowLearningRate();
    FillDefaults();
    LR_TRY(CheckTrainConfig(config_, out_.given_flags));
    LR_TRY(CheckSupported(config_));
    LR_TRY(CheckOutputDirectory());
    for (std::string& warning : TrainConfigWarnings(config_)) {
      Note(ConfigNote::Level::kWarning, std::move(warning));
    }
    out_.config = std::move(config_);
    return std::move(out_);
  }

 private:
  void Note(ConfigNote::Level level, std::string text) {
    out_.notes.push_back({level, std::move(text)});
  }

  /// Typing errors first: a misspelt --policy.type must not end as "no policy". Groups whose fields
  /// follow from a type are checked once that is known.
  Status CheckNames(Group& group) {
    std::vector<std::string> known = group.Paths();
    known.insert(known.end(), {"config_path", "policy.path", "policy.type", "policy.device"});
    for (const Argument& argument : arguments_) {
      const std::string& key = argument.key;
      if (key.ends_with(".discover_packages_path")) {
        return InvalidArgument("--{}={}: Python plugins cannot be loaded", key, argument.text);
      }
      const bool later = IsPolicyField(key) || IsOpaque(key) || FollowsFromType(key);
      if (!later && std::find(known.begin(), known.end(), key) == known.end()) {
        return Unrecognized(argument, known);
      }
      const Result<Value> value = Value::FromText(argument.text);
      AddKeys(key, value.ok() ? value->json : Json(), out_.given_flags);
    }
    return {};
  }

  /// Which file holds the base of the configuration; empty: none.
  Result<std::string> BaseFile() {
    LR_ASSIGN(resume_, BoolFlag(arguments_, "resume", false));
    const std::string* path = LastOf(arguments_, "config_path");
    if (!resume_) {
      return path != nullptr ? FindConfigFile(*path) : Result<std::string>(std::string());
    }
    if (path == nullptr) {
      path = LastOf(arguments_, "output_dir");
    }
    if (path == nullptr) {
      return InvalidArgument(
          "--resume=true needs --config_path=RUN/checkpoints/last/pretrained_model/"
          "train_config.json (or --output_dir=RUN)");
    }
    LR_ASSIGN(out_.checkpoint_dir, FindCheckpointForResume(*path));
    return out_.checkpoint_dir + "/pretrained_model/train_config.json";
  }

  Status ReadFile(Group& group) {
    LR_ASSIGN(const std::string path, BaseFile());
    if (path.empty()) {
      return {};
    }
    LR_ASSIGN(Json json, ReadConfigFile(path));
    from_checkpoint_ = IsCheckpointConfig(path);
    if (from_checkpoint_) {
      MigrateLegacyKeys(json);
    }
    file_policy_ = json.value("policy", Json());
    json.erase("policy");
    const UnknownKeys policy = from_checkpoint_ ? UnknownKeys::kKeep : UnknownKeys::kError;
    LR_TRY(group.ReadJson(json, policy, &config_.unknown_keys).WithContext("'{}'", path));
    if (!config_.unknown_keys.empty()) {
      Note(ConfigNote::Level::kWarning,
           fmt::format("'{}' has keys that this version does not know, kept as they are: {}",
                       path,
                       config::ShowJson(config_.unknown_keys)));
    }
    if (config_.resume && !resume_ && !from_checkpoint_) {
      return InvalidArgument(
          "'{}': resume belongs on the command line: --resume=true "
          "--config_path=CHECKPOINT",
          path);
    }
    file_ = path;
    return {};
  }

  /// `env` and `reward_model`, from the file or from flags of any name.
  Status RefuseOpaqueSections() {
    for (const Argument& argument : arguments_) {
      if (IsOpaque(argument.key)) {
        const size_t dot = argument.key.find('.');
        Json& section = argument.key.starts_with("env.") ? config_.env : config_.reward_model;
        if (!section.is_object()) {
          section = Json::object();
        }
        section[argument.key.substr(dot + 1)] = argument.text;
      }
    }
    return config_.env.is_null() && config_.reward_model.is_null() ? Status()
                                                                   : CheckSupported(config_);
  }

  Status ChoosePolicy() {
    const std::string resume_dir = resume_ ? out_.checkpoint_dir + "/pretrained_model" : "";
    const Result<SelectedPolicy> selected = SelectPolicy({.arguments = arguments_,
                                                          .file_policy = file_policy_,
                                                          .from_checkpoint = from_checkpoint_,
                                                          .resume_dir = resume_dir,
                                                          .environment = context_.environment});
    LR_TRY(selected);
    config_.policy = selected->config;
    out_.weights_dir = selected->weights_dir;
    out_.notes.insert(out_.notes.end(), selected->notes.begin(), selected->notes.end());
    return {};
  }

  /// The policy's optimizer and schedule replace those of the file; flags go on top afterwards.
  Status ApplyPresets() {
    LR_ASSIGN(
        const bool wanted,
        BoolFlag(arguments_, "use_policy_training_preset", config_.use_policy_training_preset));
    if (!wanted || resume_) {
      return {};
    }
    presets_applied_ = true;
    if (!from_checkpoint_ && (config_.optimizer || config_.scheduler)) {
      Note(ConfigNote::Level::kWarning,
           fmt::format("the optimizer and scheduler of '{}' are replaced by the policy's preset; "
                       "use_policy_training_preset=false keeps them",
                       file_));
    }
    config_.optimizer = config_.policy->OptimizerPreset();
    config_.scheduler = config_.policy->SchedulerPreset();
    return {};
  }

  Status ApplyFlags(Group& group) {
    // A type decides which fields its group has: types first.
    for (const bool types : {true, false}) {
      for (const Argument& argument : arguments_) {
        if (!IsSteering(argument.key) && !IsPolicyField(argument.key) && !IsOpaque(argument.key) &&
            argument.key.ends_with(".type") == types) {
          LR_TRY(SetOne(group, argument));
        }
      }
    }
    return {};
  }

  Status SetOne(Group& group, const Argument& argument) {
    const Result<Value> value = Value::FromText(argument.text);
    const Status set = value.ok() ? group.Set(argument.key, *value) : value.status();
    if (set.code() == StatusCode::kNotFound) {
      return Unrecognized(argument, group.Paths());
    }
    const std::string& key = argument.key;
    const bool replaces_preset = FollowsFromType(key) || key == "optimizer" || key == "scheduler";
    if (presets_applied_ && replaces_preset) {
      Note(ConfigNote::Level::kInfo,
           fmt::format("--{}={} replaces the policy's preset", argument.key, argument.text));
    }
    return set.WithContext("--{}={}", argument.key, argument.text);
  }

  /// Groups with a rate of their own (ACT's backbone) go with an explicit --optimizer.lr.
  void FollowLearningRate() {
    if (!presets_applied_ || !out_.Given("optimizer.lr")) {
      return;
    }
    for (const auto& [field, rate] : config_.policy->OwnLearningRates()) {
      if (!out_.Given("policy." + field)) {
        *rate = config_.optimizer->lr;
        Note(ConfigNote::Level::kInfo,
             fmt::format(
                 "policy.{} follows --optimizer.lr={}", field, PythonFloat(config_.optimizer->lr)));
      }
    }
  }

  void FillDefaults() {
    TrainConfig& c = config_;
    c.resume = resume_;
    c.checkpoint_path = resume_ ? std::optional<std::string>(out_.checkpoint_dir) : std::nullopt;
    if (c.job_name.empty()) {
      c.job_name = c.policy->type;
    }
    if (c.output_dir.empty()) {
      c.output_dir = DefaultOutputDir(context_.now, c.job_name);
      out_.output_dir_is_default = true;
    }
    c.eval.batch_size = std::max<int64_t>(c.eval.batch_size, 1);  // 0: "by itself", without effect
    if (c.policy->push_to_hub && !c.policy->repo_id && !out_.Given("policy.push_to_hub")) {
      c.policy->push_to_hub = false;
      Note(ConfigNote::Level::kInfo,
           "nothing will be published: --policy.repo_id is not given, so policy.push_to_hub counts "
           "as false");
    }
  }

  /// A restarted run that had no checkpoint yet begins anew in its own directory.
  Status CheckOutputDirectory() const {
    std::error_code error;
    const std::string& folder = config_.output_dir;
    if (resume_ || !fs::exists(folder, error)) {
      return {};
    }
    const std::optional<LockOwner> owner = ReadLockOwner(folder);
    if (owner && !context_.run_id.empty() && owner->run_id == context_.run_id) {
      return {};
    }
    return AlreadyExists(
        "--output_dir={}: already exists; continue it with --resume=true, or choose another folder",
        folder);
  }

  std::vector<Argument> arguments_;
  const ParseContext& context_;
  TrainConfig config_;  ///< described by a Group during Run; stays in place
  ParsedConfig out_;
  std::string file_;
  Json file_policy_;
  bool from_checkpoint_ = false;
  bool resume_ = false;
  bool presets_applied_ = false;
};

}  // namespace

Result<ParsedConfig> ParseTrainCommandLine(const std::vector<std::string>& args,
                                           const ParseContext& context) {
  LR_ASSIGN(std::vector<Argument> arguments, config::SplitArguments(args));
  if (LastOf(arguments, "help") != nullptr) {
    const std::string* type = LastOf(arguments, "policy.type");
    ParsedConfig parsed;
    parsed.help = TrainHelp(type != nullptr ? *type : "");
    return parsed;
  }
  return CommandLineParser(std::move(arguments), context).Run();
}

}  // namespace lr::worker
