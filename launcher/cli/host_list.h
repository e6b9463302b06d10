#pragma once
/// (pure) Host lists as Slurm compresses them: "gpu[01-03,07],login1,rack[1-2]n[001-004]". Called
/// by scheduler_environment.cc on a variable's text; fails with INVALID_ARGUMENT, naming the part
/// that cannot be read.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace lr::launcher {

inline constexpr size_t kMostHosts = 65'536;

/// The hosts in order, doubles included; at least one.
Result<std::vector<std::string>> ExpandHostList(std::string_view text);

}  // namespace lr::launcher
