#pragma once
/// (pure) The table behind foreign_environment.h: every variable that `accelerate launch` sets or
/// its library reads, with its class (launcher_and_service.md 2.2). Data only; used by
/// foreign_environment.cc and its tests.

#include <span>
#include <string_view>

namespace lr::internal {

enum class ForeignRule {
  kPresent,          ///< refused whenever the name exists
  kPresentWhenTrue,  ///< refused unless the value is a false word
  kPrecision,        ///< conflict unless "no" or equal to ours
  kDowncast,         ///< conflict when true: our engine never downcasts
  kDynamoBackend,    ///< conflict unless "no": our engine compiles nothing
  kDynamoDetail,  ///< as the backend, and only when the backend is active and the value not neutral
  kUseCpu,        ///< conflict when true and our device is not the CPU
  kDevice,        ///< conflict when it names another device than ours
  kSageMakerType,  ///< conflict unless "NO"
  kHarmless,
};

/// Which of our facts a replacement text shows.
enum class ForeignFact { kNone, kPrecision, kSharding, kAccumulation, kDevice };

struct ForeignEntry {
  std::string_view name;
  ForeignRule rule;
  std::string_view reason;       ///< why it is refused
  std::string_view replacement;  ///< our option, or what to do instead
  ForeignFact fact = ForeignFact::kNone;
};

/// Entries with their full names.
std::span<const ForeignEntry> ForeignInventory();

/// The entry of `name`, or nullptr.
const ForeignEntry* FindForeignEntry(std::string_view name);

/// FSDP_* and PARALLELISM_CONFIG_* names that the tool exports.
bool IsShardingCompanion(std::string_view name);

/// Variables that are only listed in the message: MEGATRON_LM_*, XLA_USE_BF16, NCCL_P2P_DISABLE, …
bool IsListedCompanion(std::string_view name);

}  // namespace lr::internal
