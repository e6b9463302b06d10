#include "worker/train/train_command_line.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/text.h"
#include "common/config/group.h"
#include "worker/policies/policy_types.h"
#include "worker/train/config_files.h"
#include "worker/train/train_config_check.h"
#include "worker/train/train_config_fields.h"
#include "worker/train/unsupported.h"

namespace lr::worker {

namespace fs = std::filesystem;
using config::Group;
using config::UnknownKeys;
using config::Value;

namespace {

/// One `--key=text`, in the order given; the last of several wins.
struct Argument {
  std::string key;
  std::string text;
};

/// Flags that steer the parsing and are no fields of the configuration.
const std::vector<std::string> kSteering = {"config_path", "policy.path", "help"};

Result<std::vector<Argument>> SplitArguments(const std::vector<std::string>& args) {
  std::vector<Argument> split;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "-h" || word == "--help") {
      split.push_back({"help", ""});
      continue;
    }
    if (!word.starts_with("--") || word.size() == 2) {
      return InvalidArgument("unexpected argument '{}': flags look like --batch_size=8", word);
    }
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      split.push_back({word.substr(2, equals - 2), word.substr(equals + 1)});
    } else if (i + 1 < args.size() && !args[i + 1].starts_with("--")) {
      split.push_back({word.substr(2), args[++i]});
    } else {
      return InvalidArgument("{} needs a value, for example {}=true", word, word);
    }
  }
  return split;
}

class CommandLineParser {
 public:
  CommandLineParser(std::vector<Argument> arguments, const ParseContext& context)
      : arguments_(std::move(arguments)), context_(context) {}

  Result<ParsedConfig> Run() {
    if (!context_.resume_from.empty()) {
      arguments_.push_back({"resume", "true"});
      arguments_.push_back({"config_path", context_.resume_from});
    }
    LR_TRY(ReadBase());
    if (Last("help")) {
      out_.help = Help();
      return std::move(out_);
    }
    LR_TRY(ChoosePolicy());
    Group group;
    DescribeTrainConfig(out_.config, group);
    LR_TRY(ApplyPresets());
    LR_TRY(ApplyArguments(group));
    LR_TRY(FillDefaults());
    LR_TRY(CheckTrainConfig(out_.config, out_.given_flags));
    LR_TRY(CheckSupported(out_.config));
    LR_TRY(CheckOutputDirectory());
    for (std::string& warning : TrainConfigWarnings(out_.config)) {
      Note(ConfigNote::Level::kWarning, std::move(warning));
    }
    return std::move(out_);
  }

 private:
  const std::string* Last(const std::string& key) const {
    for (auto it = arguments_.rbegin(); it != arguments_.rend(); ++it) {
      if (it->key == key) {
        return &it->text;
      }
    }
    return nullptr;
  }

  void Note(ConfigNote::Level level, std::string text) {
    out_.notes.push_back({level, std::move(text)});
  }

  /// The configuration file (or the checkpoint's), if any; the policy's section is kept for later.
  Status ReadBase() {
    if (const std::string* resume = Last("resume")) {
      LR_ASSIGN(const Value value, Value::FromText(*resume));
      const Status read = config::Convert<bool>::Read(value, resume_);
      LR_TRY(read.WithContext("--resume"));
    }
    std::string path = Last("config_path") != nullptr ? *Last("config_path") : "";
    if (resume_) {
      const std::string* output = Last("output_dir");
      if (path.empty() && output != nullptr) {
        path = *output;
      }
      if (path.empty()) {
        return InvalidArgument(
            "--resume=true needs --config_path=RUN/checkpoints/last/pretrained_model/"
            "train_config.json (or --output_dir=RUN)");
      }
      LR_ASSIGN(out_.checkpoint_dir, FindCheckpointForResume(path));
      out_.weights_dir = out_.checkpoint_dir + "/pretrained_model";
      path = out_.weights_dir + "/train_config.json";
    }
    if (path.empty()) {
      return {};
    }
    LR_ASSIGN(Json json, ReadConfigFile(path));
    file_policy_ = json.contains("policy") ? json["policy"] : Json(nullptr);
    json.erase("policy");
    Group group;
    DescribeTrainConfig(out_.config, group);
    const UnknownKeys policy = resume_ ? UnknownKeys::kKeep : UnknownKeys::kError;
    LR_TRY(group.ReadJson(json, policy, &out_.config.unknown_keys).WithContext("'{}'", path));
    if (!out_.config.unknown_keys.empty()) {
      Note(ConfigNote::Level::kWarning,
           fmt::format("'{}' has keys that this version does not know, kept as they are: {}",
                       path,
                       config::ShowJson(out_.config.unknown_keys)));
    }
    return {};
  }

  Status ChoosePolicy() {
    const std::string* type = Last("policy.type");
    const std::string* path = Last("policy.path");
    if (type != nullptr && path != nullptr) {
      return InvalidArgument(
          "cannot specify both --policy.path={} and --policy.type={}", *path, *type);
    }
    if (path == nullptr && !resume_ && file_policy_.is_object() && file_policy_.contains("path")) {
      file_path_ = file_policy_["path"].is_string() ? file_policy_["path"].get<std::string>() : "";
      path = &file_path_;
    }
    if (path != nullptr && !resume_) {
      return PretrainedPolicy(*path);
    }
    if (type != nullptr && (file_policy_.is_null() || !resume_)) {
      LR_ASSIGN(out_.config.policy, MakePolicyConfig(*type));
      return {};
    }
    if (file_policy_.is_null()) {
      return InvalidArgument("no policy: give --policy.type={} or --policy.path=FOLDER",
                             Join(PolicyTypes(), "|"));
    }
    LR_ASSIGN(out_.config.policy, PolicyConfigFromJson(file_policy_));
    if (!resume_ && !out_.config.policy->unknown_keys.empty()) {
      return InvalidArgument("unknown keys in the policy section: {}",
                             config::ShowJson(out_.config.policy->unknown_keys));
    }
    if (resume_) {
      out_.config.policy->pretrained_path = out_.weights_dir;
    }
    return {};
  }

  /// `--policy.path`: the saved configuration, then the file's policy section, then the flags.
  Status PretrainedPolicy(const std::string& path) {
    LR_ASSIGN(out_.weights_dir, FindPretrainedPolicy(path, context_.environment));
    LR_ASSIGN(const Json saved, ReadConfigFile(out_.weights_dir + "/config.json"));
    LR_ASSIGN(out_.config.policy, PolicyConfigFromJson(saved));
    out_.config.policy->pretrained_path = path;
    if (file_policy_.is_object()) {
      Json overrides = file_policy_;
      overrides.erase("path");
      overrides.erase("type");
      Group group;
      out_.config.policy->Describe(group);
      LR_TRY(group.ReadJson(overrides, UnknownKeys::kError, nullptr, "policy."));
    }
    return {};
  }

  /// The policy's optimizer and schedule replace those of the file; flags go on top afterwards.
  Status ApplyPresets() {
    bool use_presets = out_.config.use_policy_training_preset;
    if (const std::string* text = Last("use_policy_training_preset")) {
      LR_ASSIGN(const Value value, Value::FromText(*text));
      const Status read = config::Convert<bool>::Read(value, use_presets);
      LR_TRY(read.WithContext("--use_policy_training_preset"));
    }
    if (!use_presets || resume_) {
      return {};
    }
    // The preset follows from the policy's fields, so these come first.
    LR_TRY(ApplyPolicyArguments());
    out_.config.optimizer = out_.config.policy->OptimizerPreset();
    out_.config.scheduler = out_.config.policy->SchedulerPreset();
    presets_applied_ = true;
    return {};
  }

  Status ApplyPolicyArguments() {
    Group group;
    out_.config.policy->Describe(group);
    for (const Argument& argument : arguments_) {
      if (argument.key.starts_with("policy.") && argument.key != "policy.path" &&
          argument.key != "policy.type") {
        LR_TRY(SetOne(group, argument, argument.key.substr(7)));
      }
    }
    return {};
  }

  Status ApplyArguments(Group& group) {
    if (!presets_applied_) {
      LR_TRY(ApplyPolicyArguments());
    }
    // A type decides which fields its group has: types first.
    for (const bool types : {true, false}) {
      for (const Argument& argument : arguments_) {
        const bool steering =
            std::find(kSteering.begin(), kSteering.end(), argument.key) != kSteering.end();
        if (steering || argument.key.starts_with("policy.") ||
            argument.key.ends_with(".type") != types) {
          continue;
        }
        LR_TRY(SetOne(group, argument, argument.key));
      }
    }
    for (const Argument& argument : arguments_) {
      out_.given_flags.insert(argument.key);
    }
    NoteOverrides();
    return {};
  }

  Status SetOne(Group& group, const Argument& argument, const std::string& path) {
    const Result<Value> value = Value::FromText(argument.text);
    if (!value.ok()) {
      return value.status().WithContext("--{}", argument.key);
    }
    const Status set = group.Set(path, *value);
    if (set.code() != StatusCode::kNotFound) {
      return set.WithContext("--{}={}", argument.key, argument.text);
    }
    const std::optional<std::string> nearest = NearestName(argument.key, AllFlags());
    return InvalidArgument("unrecognized arguments: --{}{} (lr-train --help lists all)",
                           argument.key,
                           nearest ? fmt::format(", did you mean --{}?", *nearest) : "");
  }

  void NoteOverrides() {
    if (!presets_applied_) {
      return;
    }
    for (const Argument& argument : arguments_) {
      if (argument.key.starts_with("optimizer.") || argument.key.starts_with("scheduler.")) {
        Note(ConfigNote::Level::kInfo,
             fmt::format("--{}={} replaces the policy's preset", argument.key, argument.text));
      }
    }
    if (!out_.Given("optimizer.lr")) {
      return;
    }
    for (const auto& [field, rate] : out_.config.policy->OwnLearningRates()) {
      if (!out_.Given("policy." + field)) {
        *rate = out_.config.optimizer->lr;
        Note(ConfigNote::Level::kInfo,
             fmt::format("policy.{} follows --optimizer.lr={}", field, out_.config.optimizer->lr));
      }
    }
  }

  Status FillDefaults() {
    TrainConfig& c = out_.config;
    c.resume = resume_;
    if (c.job_name.empty()) {
      c.job_name = c.policy->type;
    }
    if (c.output_dir.empty()) {
      c.output_dir = DefaultOutputDir(context_.now, c.job_name);
      out_.output_dir_is_default = true;
    }
    if (resume_) {
      c.checkpoint_path = out_.checkpoint_dir;
    }
    if (c.policy->push_to_hub && !c.policy->repo_id && !out_.Given("policy.push_to_hub")) {
      c.policy->push_to_hub = false;
      Note(ConfigNote::Level::kInfo,
           "Nothing is published: --policy.repo_id is not given (policy.push_to_hub counts as "
           "false).");
    }
    return {};
  }

  Status CheckOutputDirectory() const {
    std::error_code error;
    if (resume_ || !fs::exists(out_.config.output_dir, error)) {
      return {};
    }
    return AlreadyExists(
        "--output_dir={}: already exists; continue it with --resume=true, or choose another folder",
        out_.config.output_dir);
  }

  std::vector<std::string> AllFlags() {
    TrainConfig plain;
    Group group;
    DescribeTrainConfig(plain, group);
    std::vector<std::string> flags = group.Paths();
    flags.insert(flags.end(), kSteering.begin(), kSteering.end());
    Group policy;
    out_.config.policy->Describe(policy);
    for (const std::string& path : policy.Paths()) {
      flags.push_back("policy." + path);
    }
    return flags;
  }

  std::string Help() {
    std::string text =
        "usage: lr-train --dataset.repo_id=NAME --policy.type=act [--FLAG=VALUE ...]\n\n"
        "Trains a robot policy; one process per rank, started by lr-launch or any launcher that "
        "sets\n"
        "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, or alone.\n\n"
        "  --config_path=FILE   YAML or JSON configuration, or a checkpoint; flags go on top\n"
        "  --policy.path=DIR    start from a trained policy\n"
        "  lists as '[1, 2]', maps as '{\"a\": \"b\"}', null for nothing\n\n";
    TrainConfig plain;
    Group group;
    DescribeTrainConfig(plain, group);
    std::vector<config::FieldHelp> help;
    group.CollectHelp("", help);
    help.erase(
        std::remove_if(
            help.begin(), help.end(), [](const auto& field) { return field.flag == "policy"; }),
        help.end());
    // Flags without a group first.
    std::stable_partition(help.begin(), help.end(), [](const config::FieldHelp& field) {
      return field.flag.find('.') == std::string::npos && !field.starts_group;
    });
    for (const std::string& type : PolicyTypes()) {
      const Result<std::shared_ptr<PolicyConfig>> policy = MakePolicyConfig(type);
      LR_CHECK(policy.ok(), "{}", type);
      help.push_back(
          {"policy", "", "", fmt::format("The policy; with --policy.type={}:", type), true});
      Group fields;
      (*policy)->Describe(fields);
      fields.CollectHelp("policy.", help);
    }
    return text + config::RenderHelp(help);
  }

  std::vector<Argument> arguments_;
  const ParseContext& context_;
  ParsedConfig out_;
  Json file_policy_;
  std::string file_path_;
  bool resume_ = false;
  bool presets_applied_ = false;
};

}  // namespace

ParseContext SystemParseContext() {
  ParseContext context;
  context.environment = ProcessEnvironment();
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &context.now);
  context.resume_from = context.environment("LR_RESUME_FROM").value_or("");
  return context;
}

std::string DefaultOutputDir(const std::tm& now, const std::string& job_name) {
  return fmt::format("outputs/train/{:04}-{:02}-{:02}/{:02}-{:02}-{:02}_{}",
                     now.tm_year + 1900,
                     now.tm_mon + 1,
                     now.tm_mday,
                     now.tm_hour,
                     now.tm_min,
                     now.tm_sec,
                     job_name);
}

Result<ParsedConfig> ParseTrainCommandLine(const std::vector<std::string>& args,
                                           const ParseContext& context) {
  LR_ASSIGN(std::vector<Argument> arguments, SplitArguments(args));
  const bool help = std::any_of(
      arguments.begin(), arguments.end(), [](const Argument& one) { return one.key == "help"; });
  if (help) {
    arguments = {{"help", ""}};
  }
  return CommandLineParser(std::move(arguments), context).Run();
}

}  // namespace lr::worker
