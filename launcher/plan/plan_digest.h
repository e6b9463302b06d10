#pragma once
/// (pure) What must be equal on all nodes of a run, as fields that the rendezvous compares one by
/// one. A mismatch is refused with the field, both values and both hosts.

#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/launch_plan.h"

namespace lr::launcher {

/// `foreign_environment`: ForeignEnvironmentDigest(), or "not checked" for foreign programs.
/// `build`: version of our programs. Program arguments are hashed before ${local_rank} is replaced.
std::vector<std::pair<std::string, std::string>> PlanDigest(const LaunchPlan& plan,
                                                            const std::string& foreign_environment,
                                                            const std::string& build);

/// The last part of a path: programs may lie in different folders on different nodes.
std::string BaseName(const std::string& path);

}  // namespace lr::launcher
