// The two functions of this room that touch the process: readers of its environment. Call them
// before threads exist.

#include <cstdlib>

#include "common/contract/foreign_environment.h"
#include "common/contract/worker_environment.h"

extern char** environ;

namespace lr {

EnvironmentReader ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value =
        std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody of ours calls setenv
    if (value == nullptr) {
      return std::nullopt;
    }
    return std::string(value);
  };
}

EnvironmentSnapshot ProcessEnvironmentSnapshot() {
  EnvironmentSnapshot snapshot;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0) {
      snapshot.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return snapshot;
}

}  // namespace lr
