// libFuzzer target: any bytes as an environment, one NAME=VALUE per line, read as a worker reads
// it and judged as the guard against foreign configuration judges it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/base/text.h"
#include "common/contract/foreign_environment.h"
#include "common/contract/worker_environment.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lr::EnvironmentSnapshot variables;
  for (const std::string& line :
       lr::Split(std::string_view(reinterpret_cast<const char*>(data), size), '\n')) {
    if (const size_t equals = line.find('='); equals != std::string::npos) {
      variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  const lr::Result<lr::WorkerEnvironment> worker =
      lr::ReadWorkerEnvironment([&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      });
  if (worker.ok() && (worker->rank < 0 || worker->rank >= worker->world_size ||
                      worker->local_rank < 0 || worker->local_world_size > worker->world_size)) {
    std::abort();
  }
  for (const lr::ForeignPolicy policy :
       {lr::ForeignPolicy::kAuto, lr::ForeignPolicy::kRefuse, lr::ForeignPolicy::kWarn}) {
    const lr::ForeignEnvironmentReport report = lr::CheckForeignEnvironment(
        variables, {.mixed_precision = "no", .sharded = false, .device = "cpu"}, policy);
    if (report.refused() && lr::ForeignRefusalText(report).empty()) {
      std::abort();
    }
    lr::ForeignWarningText(report);
    lr::ForeignEnvironmentDigest(report);
  }
  return 0;
}
