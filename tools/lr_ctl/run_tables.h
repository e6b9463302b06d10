#pragma once
/// (pure) What lr-ctl shows people: tables within 80 columns, from the JSON that --json prints.

#include <string>

#include "common/io/json.h"

namespace lr {

/// One line per run: id, state, ranks, step, loss, rate.
std::string RunsTable(const Json& runs);

/// One run in full: state with its reason, nodes, ranks, last checkpoint.
std::string RunDetail(const Json& run);

}  // namespace lr
