#include "launcher/cli/command_line.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"
#include "launcher/cli/refused_options.h"

namespace lr::launcher {
namespace {

/// A known option, served or refused; exactly one pointer is set.
struct Known {
  const OptionSpec* served = nullptr;
  const RefusedOption* refused = nullptr;

  ValueKind kind() const { return served != nullptr ? served->kind : refused->kind; }
};

std::string Canonical(std::string_view name) {
  std::string canonical(name);
  std::ranges::replace(canonical, '_', '-');
  return canonical;
}

Known FindExact(const std::string& name) {
  for (const OptionSpec& spec : OptionTable()) {
    if (name == spec.name || (!spec.short_name.empty() && name == spec.short_name)) {
      return {.served = &spec};
    }
  }
  return {.refused = FindRefused(name)};
}

/// Names of one tool: abbreviations are looked for among torchrun's first, then among our own,
/// as long as torchrun would have understood them; accelerate completes nothing.
enum class Names { kTorchrun, kTorchrunAndOwn, kAll };

std::vector<std::string> LongNames(Names wanted) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : OptionTable()) {
    const bool own = !spec.of_torchrun && spec.group != kAccelerateGroup;
    if (wanted == Names::kAll || spec.of_torchrun || (own && wanted == Names::kTorchrunAndOwn)) {
      names.emplace_back(spec.name);
    }
  }
  for (const RefusedOption& row : RefusedOptions()) {
    const bool whole = !row.name.ends_with('*');
    if (row.refusal == Refusal::kLater || (wanted == Names::kAll && whole)) {
      names.emplace_back(row.name);
    }
  }
  return names;
}

std::vector<std::string> Starting(const std::string& prefix, Names wanted) {
  std::vector<std::string> names = LongNames(wanted);
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

Status UnknownOption(const std::string& typed, const std::string& canonical) {
  const std::optional<std::string> nearest = NearestName(canonical, LongNames(Names::kAll));
  return InvalidArgument(
      "unknown option {}{}; options of the program go after PROGRAM (--help lists ours)",
      typed,
      nearest ? ", did you mean " + *nearest + "?" : "");
}

class Parser {
 public:
  Parser(const std::vector<std::string>& arguments,
         const EnvironmentReader& environment,
         Dialect dialect)
      : arguments_(arguments), environment_(environment) {
    line_.dialect = dialect;
  }

  Result<CommandLine> Run() {
    LR_TRY(TakeOptions());
    if (wants_text_) {
      return std::move(line_);
    }
    line_.program.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(at_), arguments_.end());
    LR_TRY(TakeEnvironment());
    LR_TRY(RefusalStatus());
    LR_TRY(DecideDialect());
    if (line_.program.empty()) {
      return InvalidArgument(
          "PROGRAM is missing; for example: lr-launch --nproc-per-node=2 train.py --lr 0.1 (--help "
          "explains)");
    }
    return std::move(line_);
  }

 private:
  /// Up to PROGRAM, or to an option that only prints.
  Status TakeOptions() {
    while (at_ < arguments_.size() && !wants_text_) {
      const std::string& token = arguments_[at_];
      if (token == "--") {
        ++at_;
        break;
      }
      if (token.size() < 2 || token[0] != '-') {
        break;
      }
      LR_TRY(token[1] == '-' ? TakeLong(token) : TakeShort(token));
    }
    return {};
  }

  /// "--name", "--name=value" or an unambiguous beginning of a name.
  Status TakeLong(const std::string& token) {
    const size_t equals = token.find('=');
    const std::string typed = token.substr(0, equals);
    std::string name = Canonical(typed);
    Known known = FindExact(name);
    if (known.served == nullptr && known.refused == nullptr) {
      LR_ASSIGN(name, Complete(typed, name));
      known = FindExact(name);
    }
    std::optional<std::string> attached;
    if (equals != std::string::npos) {
      attached = token.substr(equals + 1);
    }
    ++at_;
    return Take(known, typed, attached);
  }

  /// "-m", "-r3" or "-r 3".
  Status TakeShort(const std::string& token) {
    const std::string typed = token.substr(0, 2);
    const Known known = FindExact(typed);
    if (known.served == nullptr && known.refused == nullptr) {
      return UnknownOption(token, token);
    }
    std::optional<std::string> attached;
    if (token.size() > 2) {
      attached = token.substr(token[2] == '=' ? 3 : 2);
    }
    ++at_;
    return Take(known, typed, attached);
  }

  Result<std::string> Complete(const std::string& typed, const std::string& prefix) {
    std::vector<std::string> names = Starting(prefix, Names::kTorchrun);
    if (names.empty()) {
      names = Starting(prefix, Names::kTorchrunAndOwn);
    }
    if (names.empty()) {
      return UnknownOption(typed, prefix);
    }
    if (names.size() > 1) {
      return InvalidArgument("option {} is ambiguous: it could be {}", typed, Join(names, ", "));
    }
    line_.notes.push_back(fmt::format("{} is taken as {}", typed, names[0]));
    abbreviated_.emplace_back(typed, names[0]);
    return names[0];
  }

  Status Take(const Known& known, const std::string& typed, std::optional<std::string> attached) {
    std::string text = "1";
    std::string spelled = typed;
    if (known.kind() == ValueKind::kFlag && attached) {
      if (known.refused == nullptr || !IsNeutral(*known.refused, *attached)) {
        return InvalidArgument("option {} takes no value, but got '{}'", typed, *attached);
      }
      return {};
    }
    if (known.kind() == ValueKind::kOptionalValue) {
      text = attached.value_or("");
      spelled = attached ? fmt::format("{}={}", typed, text) : typed;
    }
    if (known.kind() == ValueKind::kValue) {
      if (known.refused != nullptr && !attached && !ValueFollows()) {
        refused_.emplace_back(known.refused, typed);  // some of accelerate's are flags
        return {};
      }
      if (!attached) {
        LR_ASSIGN(attached, NextValue(typed));
      }
      text = *attached;
      spelled = fmt::format("{}={}", typed, text);
    }
    if (known.refused != nullptr) {
      if (!(known.kind() == ValueKind::kValue && IsNeutral(*known.refused, text))) {
        refused_.emplace_back(known.refused, spelled);
      }
      return {};
    }
    return Store(*known.served, {text, ValueSource::kCommandLine, spelled});
  }

  bool ValueFollows() const {
    if (at_ >= arguments_.size()) {
      return false;
    }
    const std::string& next = arguments_[at_];
    return next.size() < 2 || next[0] != '-' || ParseInt(next);
  }

  Result<std::string> NextValue(const std::string& typed) {
    if (!ValueFollows()) {
      return InvalidArgument(
          "option {} needs a value{}",
          typed,
          at_ < arguments_.size() ? fmt::format(", but {} follows", arguments_[at_]) : "");
    }
    return arguments_[at_++];
  }

  /// accelerate itself completes no abbreviations, and a script that relies on one would break
  /// there.
  Status DecideDialect() {
    if (line_.has(Option::kDialect)) {
      LR_TRY(CheckWord(line_.text(Option::kDialect),
                       line_.spelled(Option::kDialect),
                       {"torchrun", "accelerate"}));
      line_.dialect =
          line_.text(Option::kDialect) == "accelerate" ? Dialect::kAccelerate : Dialect::kTorchrun;
    }
    if (line_.dialect == Dialect::kAccelerate && !abbreviated_.empty()) {
      return InvalidArgument(
          "unknown option {}: accelerate launch knows no abbreviations; write {}",
          abbreviated_.front().first,
          abbreviated_.front().second);
    }
    return {};
  }

  Status Store(const OptionSpec& spec, OptionValue value) {
    if (OnlyPrints(spec.option)) {
      wants_text_ = true;
      line_.program.clear();
    }
    const auto previous = line_.given.find(spec.option);
    if (spec.option == Option::kLocalAddr && previous != line_.given.end()) {
      value.text = fmt::format("{},{}", previous->second.text, value.text);  // all of them count
      value.spelled = fmt::format("{} {}", previous->second.spelled, value.spelled);
    }
    line_.given[spec.option] = std::move(value);  // the last one counts, as with torchrun
    return {};
  }

  /// PET_* values of options that the command line left out.
  Status TakeEnvironment() {
    for (const OptionSpec& spec : OptionTable()) {
      const std::optional<std::string> value = Variable(spec.variable);
      if (!value || line_.has(spec.option)) {
        continue;
      }
      const std::string spelled = fmt::format("{}={}", spec.variable, *value);
      std::string text = *value;
      if (spec.kind == ValueKind::kFlag) {
        LR_ASSIGN(const bool on, FlagFromVariable(spelled, *value));
        text = std::string(on ? "1" : "0");
      }
      LR_TRY(Store(spec, {text, ValueSource::kEnvironment, spelled}));
    }
    for (const RefusedOption& row : RefusedOptions()) {
      const std::optional<std::string> value = Variable(row.variable);
      if (value && !value->empty() && !IsNeutral(row, *value)) {
        refused_.emplace_back(&row, fmt::format("{}={}", row.variable, *value));
      }
    }
    return {};
  }

  std::optional<std::string> Variable(std::string_view name) const {
    return name.empty() ? std::nullopt : environment_(std::string(name));
  }

  static Result<bool> FlagFromVariable(const std::string& spelled, const std::string& value) {
    const std::optional<int64_t> number = ParseInt(value);
    if (!number) {
      return InvalidArgument("{} must be an integer: 0 for off, another number for on", spelled);
    }
    return *number != 0;
  }

  /// All refused options in one message, engine options first.
  Status RefusalStatus() const {
    std::string engine;
    std::string later;
    for (const auto& [row, spelled] : refused_) {
      std::string& list = row->refusal == Refusal::kEngine ? engine : later;
      list += fmt::format("\n  {}: {}", spelled, row->instead);
    }
    if (!engine.empty()) {
      return FailedPrecondition(
          "refused: these options configure accelerate's engine, which our trainer does not use; "
          "options of the trainer go "
          "after the program's name:{}{}",
          engine,
          later);
    }
    if (!later.empty()) {
      return InvalidArgument("these options are known, but not served by this version:{}", later);
    }
    return {};
  }

  const std::vector<std::string>& arguments_;
  const EnvironmentReader& environment_;
  CommandLine line_;
  std::vector<std::pair<const RefusedOption*, std::string>> refused_;
  std::vector<std::pair<std::string, std::string>> abbreviated_;  ///< as typed, and in full
  size_t at_ = 0;
  bool wants_text_ = false;
};

}  // namespace

bool CommandLine::flag(Option option) const {
  const auto found = given.find(option);
  return found != given.end() && found->second.text != "0";
}

std::string CommandLine::text(Option option) const {
  const auto found = given.find(option);
  return found != given.end() ? found->second.text : std::string(SpecOf(option).fallback);
}

std::string CommandLine::spelled(Option option) const {
  const auto found = given.find(option);
  return found != given.end() ? found->second.spelled : std::string(SpecOf(option).name);
}

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                     const EnvironmentReader& environment,
                                     Dialect dialect) {
  return Parser(arguments, environment, dialect).Run();
}

}  // namespace lr::launcher
