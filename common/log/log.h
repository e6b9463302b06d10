#pragma once
/// Set-up of the process's logger: spdlog to stderr, one line per message with a prefix that says
/// who speaks
/// ("lr-launch node 1", "rank 3"). After SetUp() use spdlog::info() and its siblings anywhere.
///
/// The level comes from LR_LOG_LEVEL (trace, debug, info, warn, error, off), else from the options.
/// Called once at the start of main(), before threads exist; SetPrefix() may be called later, when
/// the rank is known.

#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace lr::log {

struct Options {
  std::string prefix;  ///< shown before each message; empty: none
  std::string level = "info";
  /// Receives each finished line, newline included, instead of stderr; called on the logging
  /// thread.
  std::function<void(std::string_view line)> sink;
};

/// An unknown level name (from LR_LOG_LEVEL or the options) is an error that lists the known ones.
Status SetUp(const Options& options);

/// Replaces the prefix of the messages that follow.
void SetPrefix(const std::string& prefix);

}  // namespace lr::log
