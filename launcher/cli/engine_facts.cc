#include "launcher/cli/engine_facts.h"

#include <algorithm>
#include <optional>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

/// The last value given for `name`, as --name=value or --name value.
std::optional<std::string> Given(const std::vector<std::string>& arguments,
                                 const std::string& name) {
  std::optional<std::string> value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(name + "=")) {
      value = arguments[i].substr(name.size() + 1);
    } else if (arguments[i] == name && i + 1 < arguments.size()) {
      value = arguments[i + 1];
    }
  }
  return value;
}

}  // namespace

std::string OutputDirFromArguments(const std::vector<std::string>& arguments) {
  return Given(arguments, "--resume") ? "" : Given(arguments, "--output_dir").value_or("");
}

ResolvedEngineFacts FactsFromArguments(const std::vector<std::string>& arguments) {
  const bool from_file = Given(arguments, "--config_path") || Given(arguments, "--resume") ||
                         Given(arguments, "--policy.path");
  const auto given_or = [&](const std::string& name,
                            const std::string& fallback) -> std::optional<std::string> {
    const std::optional<std::string> value = Given(arguments, name);
    return value || from_file ? value : std::optional<std::string>(fallback);
  };
  ResolvedEngineFacts facts;
  facts.mixed_precision = given_or("--accelerator.mixed_precision", "no");
  if (const auto shard = given_or("--parallelism.dp_shard", "1")) {
    facts.sharded = *shard != "1";
  }
  facts.device = Given(arguments, "--policy.device");
  if (const auto steps = given_or("--accelerator.gradient_accumulation.steps", "1")) {
    if (const std::optional<int64_t> number = ParseInt(*steps)) {
      facts.gradient_accumulation_steps = static_cast<int>(*number);
    }
  }
  return facts;
}

}  // namespace lr::launcher
