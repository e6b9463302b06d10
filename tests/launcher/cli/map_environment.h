#pragma once
/// An environment for tests: a map.

#include <map>
#include <string>

#include "common/contract/worker_environment.h"

namespace lr::launcher {

inline EnvironmentReader MapEnvironment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

}  // namespace lr::launcher
