#pragma once
/// (pure) What the launcher can tell about the trainer's configuration from its arguments alone,
/// for the foreign-environment guard. With a configuration file in play the rest is unknown
/// here; the trainer judges it.

#include <string>
#include <vector>

#include "common/contract/foreign_environment.h"

namespace lr::launcher {

/// `arguments` of the trainer, without its name.
ResolvedEngineFacts FactsFromArguments(const std::vector<std::string>& arguments);

/// Where the trainer will save, as given; empty when its arguments do not tell, or when they say
/// themselves where to go on (--resume), which is the user's choice.
std::string OutputDirFromArguments(const std::vector<std::string>& arguments);

}  // namespace lr::launcher
