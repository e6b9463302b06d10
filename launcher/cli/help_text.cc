#include "launcher/cli/help_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/option_table.h"

namespace lr::launcher {
namespace {

constexpr size_t kIndent = 30;
constexpr size_t kWidth = 100;

constexpr std::string_view kIntroduction =
    R"(usage: lr-launch [options] PROGRAM [arguments of PROGRAM]

Starts PROGRAM once per worker, here and on the other nodes of the run, tells each worker its rank, and ends all of
them when one fails. Takes torchrun's options and the launcher options of accelerate launch; with dashes or
underscores. Everything after PROGRAM is PROGRAM's own.

  one machine, two workers      lr-launch --nproc-per-node=2 train.py --lr 0.1
  one worker per GPU            lr-launch --nproc-per-node=gpu lerobot-train --policy.type=act ...
  two machines, on each of them lr-launch --nnodes=2 --node-rank=0|1 --nproc-per-node=8 --rdzv-endpoint=NODE0 train.py
  as accelerate launch          lr-launch launch --num_processes=2 train.py
  what would happen?            lr-launch --dry-run --nproc-per-node=2 train.py
)";

constexpr std::string_view kClosing = R"(
PROGRAM is a compiled program or a script with a #! line (executed as it is), a Python script (run with the active
Python and -u), a module (-m), or the name of one of these in PATH.

Each option can also come from its PET_ variable; the command line wins. Options of the trainer
(--parallelism.*, --accelerator.*, --policy.*) go after PROGRAM.

Exit code: 0 when all workers of all nodes succeeded; the failed worker's own code, or 128+n for signal n; 2 usage,
75 nodes missing, 76 refused by the run, 78 configuration refused, 70 error of the launcher.
)";

/// `text` in lines that fit, each after the first indented.
std::string Wrapped(std::string_view text) {
  std::string result;
  size_t column = kIndent;
  for (const std::string& word : Split(text, ' ')) {
    if (column + word.size() + 1 > kWidth) {
      result += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string OptionText(const OptionSpec& spec) {
  const bool optional = spec.kind == ValueKind::kOptionalValue;
  const std::string left = fmt::format("  {}{}{}{}{}{}",
                                       spec.short_name,
                                       spec.short_name.empty() ? "" : ", ",
                                       spec.name,
                                       optional                         ? "[="
                                       : spec.kind == ValueKind::kValue ? "="
                                                                        : "",
                                       spec.metavar,
                                       optional ? "]" : "");
  std::string help(spec.help);
  std::vector<std::string> extras;
  if (!spec.fallback.empty()) {
    extras.push_back("default " + std::string(spec.fallback));
  }
  if (!spec.variable.empty()) {
    extras.emplace_back(spec.variable);
  }
  if (!extras.empty()) {
    help += " (" + Join(extras, ", ") + ")";
  }
  const bool fits = left.size() + 2 <= kIndent;
  return left +
         (fits ? std::string(kIndent - left.size(), ' ') : "\n" + std::string(kIndent, ' ')) +
         Wrapped(help) + "\n";
}

}  // namespace

std::string HelpText() {
  std::string text(kIntroduction);
  std::string_view group;
  for (const OptionSpec& spec : OptionTable()) {
    if (spec.group != group) {
      group = spec.group;
      text += fmt::format("\n{}\n", group);
    }
    text += OptionText(spec);
  }
  return text + std::string(kClosing);
}

}  // namespace lr::launcher
