#pragma once
/// Reads recorded reference values.

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace lr::worker::testing {

/// The JSON file of that name in tests/data; throws (and fails the test) when it is missing.
inline nlohmann::json ReadFixture(const std::string& name) {
  std::ifstream file(std::string(LR_TEST_DATA) + "/" + name);
  return nlohmann::json::parse(file);
}

}  // namespace lr::worker::testing
