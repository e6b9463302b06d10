// See the header.
#include "tools/lr_convert_dcp/command_line.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "common/base/text.h"
#include "common/config/arguments.h"
#include "common/config/group.h"
#include "common/io/yaml_node.h"
#include "worker/hub/publish_command.h"

namespace lr {
namespace {

using config::Argument;
using config::Value;

constexpr std::array<std::string_view, 5> kSwitches = {
    "--delete_dcp", "--private", "--list", "--verify", "--json"};

constexpr char kUsage[] =
    "usage: lerobot-convert-dcp --checkpoint_dir=DIR [flags]\n\n"
    "Merges the shards of a checkpoint (pytorch_model_fsdp_0) into model.safetensors, or\n"
    "adapter_model.safetensors for a PEFT run. DIR is a step directory, its pretrained_model or a\n"
    "path through `last`. Exit status: 0 done, 1 failed, 2 wrong usage, 74 converted but not "
    "published.\n\n";

void Describe(CommandLine& line, config::Group& group) {
  group.Add("checkpoint_dir", line.checkpoint_dir, "Step directory or pretrained_model directory.");
  group.Add("delete_dcp", line.delete_dcp, "Remove the shards once the merged file was verified.");
  group.Add("push_to_hub", line.push_to_hub, "Repository to publish the converted directory to.");
  group.Add("private", line.is_private, "Visibility of a repository that is created.");
  group.Add("list", line.list, "Only show keys, types, shapes, bytes and files.").Newer();
  group.Add("verify", line.verify, "Only check manifest, shards and safetensors headers.").Newer();
  group.Add("json", line.json, "Print the result as JSON.").Newer();
}

/// `--json` -> `--json=true`, unless its value follows as the next argument.
void CompleteSwitches(std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_switch =
        std::find(kSwitches.begin(), kSwitches.end(), args[i]) != kSwitches.end();
    const bool has_value = i + 1 < args.size() && !args[i + 1].starts_with("--");
    if (is_switch && !has_value) {
      args[i] += "=true";
    }
  }
}

Status ReadConfigFile(const std::string& path, config::Group& group) {
  LR_ASSIGN(
      const Json json,
      std::filesystem::path(path).extension() == ".json" ? ReadJsonFile(path) : ReadYamlFile(path));
  return group.ReadJson(json, config::UnknownKeys::kError).WithContext("'{}'", path);
}

Status SetFlag(const Argument& argument, config::Group& group) {
  LR_ASSIGN(const Value value, Value::FromText(argument.text));
  const Status set = group.Set(argument.key, value);
  if (set.code() != StatusCode::kNotFound) {
    return set.WithContext("--{}={}", argument.key, argument.text);
  }
  const std::optional<std::string> nearest = NearestName(argument.key, group.Paths());
  return InvalidArgument("unrecognized arguments: --{}={}{}",
                         argument.key,
                         argument.text,
                         nearest ? fmt::format(", did you mean --{}?", *nearest) : "");
}

Status Check(const CommandLine& line) {
  if (line.checkpoint_dir.empty()) {
    return InvalidArgument("--checkpoint_dir is required");
  }
  if (line.list && line.verify) {
    return InvalidArgument("--list and --verify: choose one");
  }
  if ((line.list || line.verify) && (line.delete_dcp || line.push_to_hub)) {
    return InvalidArgument("--{} only reads: --delete_dcp and --push_to_hub do not go with it",
                           line.list ? "list" : "verify");
  }
  if (line.is_private && !line.push_to_hub) {
    return InvalidArgument("--private={} means nothing without --push_to_hub", *line.is_private);
  }
  return line.push_to_hub
             ? worker::CheckRepositoryName(*line.push_to_hub).WithContext("--push_to_hub")
             : Status();
}

}  // namespace

Result<CommandLine> ParseCommandLine(std::vector<std::string> args) {
  CompleteSwitches(args);
  LR_ASSIGN(const std::vector<Argument> arguments, config::SplitArguments(args));
  CommandLine line;
  config::Group group;
  Describe(line, group);
  if (config::LastOf(arguments, "help") != nullptr) {
    std::vector<config::FieldHelp> help;
    group.CollectHelp("", help);
    help.push_back(
        {"config_path", "text", "null", "JSON or YAML file with these settings.", false});
    line.help = kUsage + config::RenderHelp(help);
    return line;
  }
  if (const std::string* path = config::LastOf(arguments, "config_path")) {
    LR_TRY(ReadConfigFile(*path, group));
  }
  for (const Argument& argument : arguments) {
    if (argument.key != "config_path") {
      LR_TRY(SetFlag(argument, group));
    }
  }
  LR_TRY(Check(line));
  return line;
}

}  // namespace lr
