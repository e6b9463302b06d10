#include "launcher/cli/completion_script.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/option_table.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

constexpr std::string_view kPrograms = "lr-launch torchrun";

/// The words among "N|gpu|cpu": those without capitals, which stand for what the user makes up.
std::vector<std::string> Words(const OptionSpec& spec) {
  std::vector<std::string> words = Split(spec.metavar, '|');
  std::erase_if(words, [](const std::string& word) {
    return word.empty() || std::ranges::any_of(word, [](unsigned char c) {
             return std::isupper(c) != 0 || c == '[' || c == '.';
           });
  });
  return words;
}

std::string Names(ValueKind kind) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : OptionTable()) {
    if (spec.kind == kind) {
      names.emplace_back(spec.name);
      if (!spec.short_name.empty()) {
        names.emplace_back(spec.short_name);
      }
    }
  }
  return Join(names, " ");
}

/// bash splits words at '=', so that --name=value arrives as three of them.
std::string BashScript() {
  std::string cases;
  for (const OptionSpec& spec : OptionTable()) {
    if (const std::vector<std::string> words = Words(spec); !words.empty()) {
      cases += fmt::format("    {}) words=\"{}\" ;;\n", spec.name, Join(words, " "));
    }
  }
  return fmt::format(R"(_lr_launch() {{
  local valued=" {} "
  local names="{} {} {}"
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words="" i word
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do  # is PROGRAM there already?
    word="${{COMP_WORDS[i]//_/-}}"
    if [[ "${{COMP_WORDS[i+1]}}" == "=" ]]; then
      ((i += 2))
    elif [[ $valued == *" $word "* ]]; then
      ((i += 1))
    elif [[ $word != -* ]]; then
      COMPREPLY=($(compgen -f -- "$current"))
      return
    fi
  done
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $before == "=" ]]; then
    before="${{COMP_WORDS[COMP_CWORD-2]}}"
  fi
  case "${{before//_/-}}" in
{}  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$names" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _lr_launch {}
)",
                     Names(ValueKind::kValue),
                     Names(ValueKind::kFlag),
                     Names(ValueKind::kOptionalValue),
                     Names(ValueKind::kValue),
                     cases,
                     kPrograms);
}

/// Inside '…[…]…:…': quotes end the word, brackets and colons are the format's own.
std::string ZshText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
    } else {
      escaped +=
          c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return escaped;
}

std::string ZshScript() {
  std::string rows;
  for (const OptionSpec& spec : OptionTable()) {
    const std::string words = Join(Words(spec), " ");
    const std::string action = words.empty() ? "_files" : fmt::format("({})", words);
    const std::string value = fmt::format(":{}:{}", ZshText(spec.metavar), action);
    const bool flag = spec.kind == ValueKind::kFlag;
    const bool optional = spec.kind == ValueKind::kOptionalValue;
    rows += fmt::format("  '{}{}[{}]{}' \\\n",
                        spec.name,
                        flag       ? ""
                        : optional ? "=-"
                                   : "=",
                        ZshText(spec.help),
                        flag       ? ""
                        : optional ? ":" + value
                                   : value);
  }
  return fmt::format(
      "#compdef {}\n_arguments -S -A '-*' \\\n{}  '*::PROGRAM:_files'\n", kPrograms, rows);
}

std::string TcshScript() {
  std::string names;
  std::string values;
  for (const OptionSpec& spec : OptionTable()) {
    names += fmt::format(" {}", spec.name.substr(2));
    const std::string words = Join(Words(spec), " ");
    if (!words.empty()) {
      values += fmt::format(" 'n/{}/({})/' 'c/{}=/({})/'", spec.name, words, spec.name, words);
    }
  }
  std::string script;
  for (const std::string& program : Split(kPrograms, ' ')) {
    script +=
        fmt::format("complete {}{} 'c/--/({})/' 'p/*/f/'\n", program, values, names.substr(1));
  }
  return script;
}

}  // namespace

Result<std::string> CompletionScript(const std::string& shell, const std::string& spelled) {
  LR_TRY(CheckWord(shell, spelled, {"bash", "zsh", "tcsh"}));
  if (shell == "bash") {
    return BashScript();
  }
  return shell == "zsh" ? ZshScript() : TcshScript();
}

}  // namespace lr::launcher
