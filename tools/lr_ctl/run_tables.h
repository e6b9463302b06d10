#pragma once
/// (pure) What lr-ctl shows people: tables within 80 columns, from the JSON that --json prints.

#include <string>

#include "common/io/json.h"

namespace lr {

/// One line per run: id, state, ranks, step, loss, rate.
std::string RunsTable(const Json& runs);

/// One run in full: state with its reason, nodes, ranks, last checkpoint.
std::string RunDetail(const Json& run);

/// One run in one line: id, state, ranks, and step, loss and rate where it trains.
std::string StatusLine(const Json& run);

/// The failures of a run, oldest first: who, where, when, how and why, with its last lines.
std::string FailuresText(const Json& run);

/// Stacks of ranks, one after the other.
std::string StacksText(const Json& ranks);

}  // namespace lr
