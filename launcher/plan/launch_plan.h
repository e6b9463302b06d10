#pragma once
/// (pure) The fully resolved intention of one lr-launch: what every option came to, before any
/// other node is known. Made by launcher/cli from the command line, PET_* variables and facts of
/// the machine; executed by the App; printed by
/// --dry-run. Plain data.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/run_policy.h"

namespace lr::launcher {

/// Where an option's value came from.
enum class ValueSource { kDefault, kEnvironment, kCommandLine };

/// One line of the dry run.
struct ResolvedOption {
  std::string name;  ///< "--nproc-per-node"
  std::string value;
  ValueSource source = ValueSource::kDefault;
  std::string variable;  ///< the PET variable, when the source is the environment
};

/// What is executed once per worker.
struct ProgramPlan {
  std::string given;              ///< as typed: PROGRAM
  std::string executable;         ///< absolute path, or found in PATH
  std::vector<std::string> argv;  ///< argv[0] included; ${local_rank} not yet replaced
  size_t first_argument = 1;      ///< where in argv the program's own arguments begin
  bool native =
      false;  ///< our trainer: speaks the worker protocol, guarded against foreign variables
  std::string
      kind;  ///< for people: "native program", "python script", "python module", "executable"
};

/// Where the nodes meet and where the workers' store will be (spec 3.2, 3.5).
struct EndpointPlan {
  bool standalone = false;  ///< one node: nothing to agree with anybody
  std::string host;
  int worker_port = 0;   ///< 0: a free one is taken and held
  int control_port = 0;  ///< 0: follows from worker_port
  bool worker_port_explicit = false;
  std::chrono::seconds join_timeout{600};
};

struct LaunchPlan {
  int min_nodes = 1;
  int max_nodes = 1;
  int local_size = 1;
  std::optional<int> node_rank;  ///< only when given
  EndpointPlan endpoint;
  std::string run_id;  ///< empty: several nodes and no identity given (R-11)
  std::string local_addr;
  std::string role = "default";
  ProgramPlan program;
  RunPolicy policy;
  std::chrono::milliseconds shutdown_timeout{30'000};
  std::vector<int> signals;     ///< caught and forwarded, in the order given
  std::string signals_text;     ///< as torchrun leaves it in the environment
  std::string log_dir;          ///< base of run directories; empty: the state directory
  bool fold_exit_code = false;  ///< --exit-code=torchrun: every failure is 1
  bool dry_run = false;
  std::vector<ResolvedOption> options;  ///< in the order of the help text
  std::vector<std::string> notes;       ///< one line each, printed before anything starts
};

}  // namespace lr::launcher
