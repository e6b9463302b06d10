#pragma once
/// The text of `lr-train --help`, from the field tables.

#include <string>

namespace lr::worker {

/// `policy_type`: whose fields are listed; empty: those of every type.
std::string TrainHelp(const std::string& policy_type);

}  // namespace lr::worker
