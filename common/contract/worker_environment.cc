#include "common/contract/worker_environment.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "common/base/text.h"

namespace lr {
namespace {

constexpr std::array<const char*, 5> kStandard = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/// The integer in `name`, within [minimum, maximum]; `fallback` when unset or empty.
Result<int> ReadInt(const EnvironmentReader& read,
                    const std::string& name,
                    int fallback,
                    int minimum,
                    int maximum) {
  const std::optional<std::string> text = read(name);
  if (!text || text->empty()) {
    return fallback;
  }
  const std::optional<int64_t> value = ParseInt(*text);
  if (!value || *value < minimum || *value > maximum) {
    return InvalidArgument("environment variable {}='{}' must be an integer from {} to {}",
                           name,
                           *text,
                           minimum,
                           maximum);
  }
  return static_cast<int>(*value);
}

std::string ReadText(const EnvironmentReader& read, const std::string& name) {
  return read(name).value_or("");
}

/// Splits the five standard names by whether they are set.
void SplitStandard(const EnvironmentReader& read,
                   std::vector<std::string>& present,
                   std::vector<std::string>& missing) {
  for (const char* name : kStandard) {
    (ReadText(read, name).empty() ? missing : present).emplace_back(name);
  }
}

Status ReadRanks(const EnvironmentReader& read, WorkerEnvironment& environment) {
  constexpr int kMaxRanks = 1 << 20;
  LR_ASSIGN(environment.world_size, ReadInt(read, "WORLD_SIZE", 1, 1, kMaxRanks));
  LR_ASSIGN(environment.rank, ReadInt(read, "RANK", 0, 0, kMaxRanks));
  LR_ASSIGN(environment.local_rank, ReadInt(read, "LOCAL_RANK", 0, 0, kMaxRanks));
  // srun wrappers leave LOCAL_WORLD_SIZE out: then at least local_rank + 1 workers are here.
  LR_ASSIGN(environment.local_world_size,
            ReadInt(read, "LOCAL_WORLD_SIZE", environment.local_rank + 1, 1, kMaxRanks));
  LR_ASSIGN(environment.master_port, ReadInt(read, "MASTER_PORT", 0, 1, 65535));
  environment.master_addr = ReadText(read, "MASTER_ADDR");
  if (environment.rank >= environment.world_size) {
    return InvalidArgument(
        "environment variables RANK={} and WORLD_SIZE={} disagree: the rank must be below the size",
        environment.rank,
        environment.world_size);
  }
  if (environment.local_rank >= environment.local_world_size) {
    return InvalidArgument(
        "environment variables LOCAL_RANK={} and LOCAL_WORLD_SIZE={} disagree: the rank must be "
        "below the size",
        environment.local_rank,
        environment.local_world_size);
  }
  if (environment.local_world_size > environment.world_size) {
    return InvalidArgument(
        "environment variables LOCAL_WORLD_SIZE={} and WORLD_SIZE={} disagree: a node cannot hold "
        "more "
        "workers than the run has",
        environment.local_world_size,
        environment.world_size);
  }
  return {};
}

}  // namespace

Result<WorkerEnvironment> ReadWorkerEnvironment(const EnvironmentReader& read) {
  WorkerEnvironment environment;
  std::vector<std::string> present;
  std::vector<std::string> missing;
  SplitStandard(read, present, missing);
  if (!present.empty() && !missing.empty()) {
    return InvalidArgument(
        "the launch environment is incomplete: {} set, but not {}; a launcher sets all five, a "
        "single process none",
        Join(present, ", "),
        Join(missing, ", "));
  }
  if (!present.empty()) {
    LR_TRY(ReadRanks(read, environment));
    LR_ASSIGN(environment.restart_count,
              ReadInt(read, "TORCHELASTIC_RESTART_COUNT", 0, 0, std::numeric_limits<int>::max()));
    environment.use_agent_store = ReadText(read, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  }
  environment.run_id = ReadText(read, "LR_RUN_ID");
  if (environment.run_id.empty()) {
    environment.run_id = ReadText(read, "TORCHELASTIC_RUN_ID");
  }
  environment.control_socket = ReadText(read, "LR_CONTROL_SOCKET");
  environment.resume_from = ReadText(read, "LR_RESUME_FROM");
  environment.error_file = ReadText(read, "TORCHELASTIC_ERROR_FILE");
  return environment;
}

}  // namespace lr
