#include "common/contract/foreign_environment.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/fingerprint.h"
#include "common/contract/foreign_inventory.h"

namespace lr {
namespace {

using internal::ForeignEntry;
using internal::ForeignFact;
using internal::ForeignRule;

constexpr std::array<std::string_view, 2> kAcknowledgers = {"LEROBOT_ALLOW_ACCELERATE_ENV",
                                                            "LR_ALLOW_ACCELERATE_ENV"};

std::string Lower(std::string_view text) {
  std::string lower(Trim(text));
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// Anything that is not a false word counts as true: a value that nobody understands must not pass
/// in silence.
bool IsFalseWord(std::string_view value) {
  constexpr std::array kFalse =
      std::to_array<std::string_view>({"", "0", "false", "f", "no", "n", "off"});
  return std::ranges::find(kFalse, Lower(value)) != kFalse.end();
}

std::string DeviceType(std::string_view device) {
  return Lower(device.substr(0, device.find(':')));
}

bool DynamoActive(const EnvironmentSnapshot& environment) {
  const auto backend = environment.find("ACCELERATE_DYNAMO_BACKEND");
  return backend != environment.end() && !IsFalseWord(backend->second);
}

bool IsNeutralDynamoDetail(std::string_view value) {
  return IsFalseWord(value) || Lower(value) == "default";
}

bool ConflictsInPrecision(std::string_view value, const ResolvedEngineFacts& facts) {
  const std::string wanted = Lower(value);
  if (wanted.empty() || wanted == "no") {
    return false;
  }
  if (wanted != "bf16" && wanted != "fp16") {
    return true;  // fp8 and unknown words: no configuration of ours can agree
  }
  return facts.mixed_precision && *facts.mixed_precision != wanted;
}

bool IsOffending(const ForeignEntry& entry,
                 std::string_view value,
                 const EnvironmentSnapshot& environment,
                 const ResolvedEngineFacts& facts) {
  switch (entry.rule) {
    case ForeignRule::kPresent:
      return true;
    case ForeignRule::kPresentWhenTrue:
    case ForeignRule::kDowncast:
    case ForeignRule::kDynamoBackend:
    case ForeignRule::kSageMakerType:
      return !IsFalseWord(value);
    case ForeignRule::kPrecision:
      return ConflictsInPrecision(value, facts);
    case ForeignRule::kDynamoDetail:
      return DynamoActive(environment) && !IsNeutralDynamoDetail(value);
    case ForeignRule::kUseCpu:
      return !IsFalseWord(value) && facts.device && DeviceType(*facts.device) != "cpu";
    case ForeignRule::kDevice:
      return !value.empty() && facts.device && DeviceType(*facts.device) != DeviceType(value);
    case ForeignRule::kHarmless:
      return false;
  }
  return false;
}

std::string NowText(ForeignFact fact, const ResolvedEngineFacts& facts) {
  switch (fact) {
    case ForeignFact::kPrecision:
      return facts.mixed_precision ? fmt::format(" (now {})", *facts.mixed_precision) : "";
    case ForeignFact::kSharding:
      return facts.sharded ? fmt::format(" (now {})", *facts.sharded ? "sharded" : "not sharded")
                           : "";
    case ForeignFact::kAccumulation:
      return facts.gradient_accumulation_steps
                 ? fmt::format(" (now {})", *facts.gradient_accumulation_steps)
                 : "";
    case ForeignFact::kDevice:
      return facts.device ? fmt::format(" (now {})", *facts.device) : "";
    case ForeignFact::kNone:
      return "";
  }
  return "";
}

std::string ShownValue(const std::string& name, const std::string& value) {
  return LooksSecret(name) && !value.empty() ? "***" : value;
}

ForeignClass ClassOf(ForeignRule rule) {
  return rule == ForeignRule::kPresent || rule == ForeignRule::kPresentWhenTrue
             ? ForeignClass::kPresent
             : ForeignClass::kConflict;
}

ForeignVariable ShardingCompanion(const std::string& name,
                                  const std::string& value,
                                  const ResolvedEngineFacts& facts) {
  const bool degrees = name.starts_with("PARALLELISM_CONFIG_");
  return {.name = name,
          .value = ShownValue(name, value),
          .foreign_class = ForeignClass::kSharded,
          .reason = *facts.sharded ? "it would fill unset fields of a sharded run"
                                   : "it is ignored: this run is not sharded",
          .replacement = std::string(degrees ? "--parallelism.*" : "--accelerator.fsdp.*") +
                         NowText(ForeignFact::kSharding, facts)};
}

ForeignVariable UnknownVariable(const std::string& name, const std::string& value) {
  return {.name = name,
          .value = ShownValue(name, value),
          .foreign_class = ForeignClass::kUnknown,
          .reason = "it is not known to this version and has no effect here",
          .replacement = "unset it"};
}

std::string VariableLines(const ForeignVariable& variable) {
  return fmt::format("  {}={}\n      {}; use {}\n",
                     variable.name,
                     variable.value,
                     variable.reason,
                     variable.replacement);
}

std::string CompanionLine(const std::vector<std::string>& companions) {
  return companions.empty()
             ? ""
             : fmt::format("  also set, without effect here: {}\n", Join(companions, ", "));
}

/// Sorts one variable into the report; the snapshot is sorted, so the lists are too.
void Classify(const std::string& name,
              const std::string& value,
              const EnvironmentSnapshot& environment,
              const ResolvedEngineFacts& facts,
              ForeignPolicy policy,
              ForeignEnvironmentReport& report) {
  if (const ForeignEntry* entry = internal::FindForeignEntry(name)) {
    if (IsOffending(*entry, value, environment, facts)) {
      report.offenders.push_back(
          {.name = name,
           .value = ShownValue(name, value),
           .foreign_class = ClassOf(entry->rule),
           .reason = std::string(entry->reason),
           .replacement = std::string(entry->replacement) + NowText(entry->fact, facts)});
    }
  } else if (internal::IsShardingCompanion(name)) {
    if (facts.sharded) {  // unknown here: judged by the trainer, which knows
      (*facts.sharded ? report.offenders : report.warnings)
          .push_back(ShardingCompanion(name, value, facts));
    }
  } else if (internal::IsListedCompanion(name)) {
    report.companions.push_back(name);
  } else if (name.starts_with("ACCELERATE_")) {
    (policy == ForeignPolicy::kRefuse ? report.offenders : report.warnings)
        .push_back(UnknownVariable(name, value));
  }
}

}  // namespace

std::string_view ForeignClassName(ForeignClass foreign_class) {
  switch (foreign_class) {
    case ForeignClass::kPresent:
      return "present";
    case ForeignClass::kConflict:
      return "conflict";
    case ForeignClass::kSharded:
      return "sharded";
    case ForeignClass::kUnknown:
      return "unknown";
  }
  return "unknown";
}

bool LooksSecret(std::string_view variable_name) {
  constexpr std::array kWords = std::to_array<std::string_view>(
      {"TOKEN", "TOKENS", "KEY", "KEYS", "APIKEY", "AUTH", "PWD", "PASS"});
  constexpr std::array kParts =
      std::to_array<std::string_view>({"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"});
  std::string upper(variable_name);
  std::ranges::transform(
      upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto contains = [&](std::string_view part) {
    return upper.find(part) != std::string::npos;
  };
  const auto is_secret_word = [&](const std::string& word) {
    return std::ranges::find(kWords, word) != kWords.end();
  };
  return std::ranges::any_of(kParts, contains) ||
         std::ranges::any_of(Split(upper, '_'), is_secret_word);
}

std::optional<std::string> ForeignAcknowledgement(const EnvironmentSnapshot& environment) {
  constexpr std::array kTrue = std::to_array<std::string_view>({"1", "true", "yes", "on"});
  for (const std::string_view name : kAcknowledgers) {
    const auto found = environment.find(std::string(name));
    if (found != environment.end() &&
        std::ranges::find(kTrue, Lower(found->second)) != kTrue.end()) {
      return fmt::format("{}={}", name, found->second);
    }
  }
  return std::nullopt;
}

ForeignEnvironmentReport CheckForeignEnvironment(const EnvironmentSnapshot& environment,
                                                 const ResolvedEngineFacts& facts,
                                                 ForeignPolicy policy) {
  ForeignEnvironmentReport report;
  for (const auto& [name, value] : environment) {
    Classify(name, value, environment, facts, policy, report);
  }
  if (policy == ForeignPolicy::kWarn) {
    report.warnings.insert(report.warnings.end(), report.offenders.begin(), report.offenders.end());
    std::ranges::sort(report.warnings, {}, &ForeignVariable::name);
    report.offenders.clear();
  }
  report.acknowledgement = ForeignAcknowledgement(environment);
  return report;
}

std::string ForeignRefusalText(const ForeignEnvironmentReport& report) {
  std::string text = fmt::format(
      "refused: {} environment variable{} would configure this run from outside its recorded "
      "configuration:\n",
      report.offenders.size(),
      report.offenders.size() == 1 ? "" : "s");
  for (const ForeignVariable& variable : report.offenders) {
    text += VariableLines(variable);
  }
  text += CompanionLine(report.companions);
  text += fmt::format("Unset {} and give the option instead, or set {}=1 to go on with {} ignored.",
                      report.offenders.size() == 1 ? "it" : "them",
                      kAcknowledgers[0],
                      report.offenders.size() == 1 ? "it" : "them");
  return text;
}

std::string ForeignWarningText(const ForeignEnvironmentReport& report) {
  if (report.quiet()) {
    return "";
  }
  std::string text = "these environment variables are ignored; they have no effect on this run";
  if (report.acknowledgement && !report.offenders.empty()) {
    text += fmt::format(" (acknowledged by {})", *report.acknowledgement);
  }
  text += ":\n";
  for (const auto* list : {&report.offenders, &report.warnings}) {
    for (const ForeignVariable& variable : *list) {
      text += VariableLines(variable);
    }
  }
  text += CompanionLine(report.companions);
  text.pop_back();
  return text;
}

std::string ForeignEnvironmentDigest(const ForeignEnvironmentReport& report) {
  if (report.offenders.empty()) {
    return "none";
  }
  std::vector<std::string> names;
  std::string values;
  for (const ForeignVariable& variable : report.offenders) {
    names.push_back(variable.name);
    values += fmt::format("{}={}\n", variable.name, variable.value);
  }
  return fmt::format("{} [{}]", Join(names, ","), Fingerprint(values));
}

}  // namespace lr
