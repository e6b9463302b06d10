#pragma once
/// Options of torchrun and accelerate launch that this launcher knows and does not serve:
/// recognised, never ignored. Each has a sentence that says what to do instead, and the values that
/// change nothing and therefore pass (L-12). Data only.

#include <span>
#include <string_view>

#include "launcher/cli/option_table.h"

namespace lr::launcher {

enum class Refusal {
  kLater,      ///< torchrun's, not in this version: usage error, exit 2
  kElsewhere,  ///< accelerate's way of launching that is another program's work: exit 2
  kEngine,     ///< configures accelerate's engine: exit 78 (L-12)
};

struct RefusedOption {
  std::string_view
      name;  ///< canonical, with dashes; a trailing '*' matches every name that starts so
  std::string_view short_name;  ///< "-r" or empty
  ValueKind kind;
  Refusal refusal;
  std::string_view instead;   ///< completes "…: "
  std::string_view neutral;   ///< comma-separated values that pass; compared without case
  std::string_view variable;  ///< PET variable or empty
};

std::span<const RefusedOption> RefusedOptions();

/// The row for a canonical long name or a short one; nullptr when there is none.
const RefusedOption* FindRefused(std::string_view name);

/// Whether this value changes nothing.
bool IsNeutral(const RefusedOption& option, std::string_view value);

}  // namespace lr::launcher
