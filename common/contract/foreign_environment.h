#pragma once
/// (pure) The guard against configuration that arrives through the environment: which ACCELERATE_*,
/// FSDP_*, … variables contradict the configuration of this run, and what to say about them
/// (launcher_and_service.md section 2).
///
/// Called by the trainer on every rank before it touches devices, network or output directory
/// and by lr-launch before the rendezvous when the program is native. Nothing here
/// changes what our engine does: it reads none of these variables. It never fails; the caller turns
/// a refused report into exit code kExitConfigRefused.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lr {

/// Variables by name, sorted.
using EnvironmentSnapshot = std::map<std::string, std::string>;

/// The process's variables now.
EnvironmentSnapshot ProcessEnvironmentSnapshot();

/// The resolved configuration that values are compared with. A fact that is not known here (the
/// launcher does not parse the trainer's configuration file) stays empty: what depends on it is
/// then not judged, the trainer does it later.
struct ResolvedEngineFacts {
  std::optional<std::string> mixed_precision = {};  ///< no, bf16, fp16
  std::optional<bool> sharded = {};
  std::optional<std::string> device = {};  ///< cpu, cuda, xpu, mps; an index (cuda:1) is cut off
  std::optional<int> gradient_accumulation_steps = {};  ///< only shown beside our option
};

/// How --accelerate-env bends the verdict: refuse also refuses unknown ACCELERATE_* names, warn
/// refuses nothing.
enum class ForeignPolicy { kAuto, kRefuse, kWarn };

enum class ForeignClass { kPresent, kConflict, kSharded, kUnknown };

/// "present", "conflict", "sharded", "unknown": for records.
std::string_view ForeignClassName(ForeignClass foreign_class);

struct ForeignVariable {
  std::string name;
  std::string value;  ///< as shown: "***" when the name looks secret
  ForeignClass foreign_class = ForeignClass::kPresent;
  std::string reason;       ///< why it is not accepted
  std::string replacement;  ///< our option, with its present value when known
};

struct ForeignEnvironmentReport {
  std::vector<ForeignVariable> offenders;  ///< sorted by name; refused unless acknowledged
  std::vector<ForeignVariable> warnings;   ///< sorted by name; never refused
  std::vector<std::string>
      companions;  ///< names of other variables that the same tool sets; listed in the message
  std::optional<std::string>
      acknowledgement;  ///< the variable that acknowledges, with its value ("NAME=1")

  bool refused() const { return !offenders.empty() && !acknowledgement; }

  bool quiet() const { return offenders.empty() && warnings.empty(); }
};

ForeignEnvironmentReport CheckForeignEnvironment(const EnvironmentSnapshot& environment,
                                                 const ResolvedEngineFacts& facts,
                                                 ForeignPolicy policy = ForeignPolicy::kAuto);

/// LEROBOT_ALLOW_ACCELERATE_ENV or LR_ALLOW_ACCELERATE_ENV set to 1, true, yes or on, any case
///
std::optional<std::string> ForeignAcknowledgement(const EnvironmentSnapshot& environment);

/// The text of a refusal, several lines, without a newline at the end.
std::string ForeignRefusalText(const ForeignEnvironmentReport& report);

/// The warning of an acknowledged or merely suspicious environment; empty when the report is
/// quiet.
std::string ForeignWarningText(const ForeignEnvironmentReport& report);

/// Short text that is equal on two nodes exactly when their offending sets are: "none", or
/// the names and a fingerprint of the values, so that a mismatch message shows which name is only
/// on one side.
std::string ForeignEnvironmentDigest(const ForeignEnvironmentReport& report);

/// True for names whose values must not be shown or stored: *TOKEN*, *SECRET*, *PASSWORD*, *KEY*,
/// *CREDENTIAL*, …
bool LooksSecret(std::string_view variable_name);

}  // namespace lr
