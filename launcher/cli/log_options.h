#pragma once
/// (pure) The options about the output of workers (spec 1.2, L-30 to L-35), read into a LogPlan.
/// Errors are usage errors (kInvalidArgument) naming the option as it was spelled.

#include <set>
#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "launcher/cli/command_line.h"
#include "launcher/plan/log_plan.h"

namespace lr::launcher {

Result<LogPlan> ReadLogPlan(const CommandLine& line, const EnvironmentReader& environment);

/// "3", or a list of RANK:VALUE, FIRST-LAST:VALUE and *:VALUE (every rank that is not listed) with
/// values from 0 to 3; of two values for one rank the later counts.
Result<StreamChoice> ReadStreamChoice(const std::string& text, const std::string& spelled);

/// "0,2-5"; empty text is the empty set.
Result<std::set<int>> ReadRankSet(const std::string& text, const std::string& spelled);

/// Comma-separated texts; two commas are one literal comma. Empty ones are left out.
std::vector<std::string> ReadFilters(const std::string& text);

/// Bytes, with K, M or G for powers of 1024.
Result<uint64_t> ReadByteSize(const std::string& text, const std::string& spelled);

}  // namespace lr::launcher
