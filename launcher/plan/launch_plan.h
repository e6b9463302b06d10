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

#include "launcher/plan/log_plan.h"
#include "launcher/plan/preempt_plan.h"
#include "launcher/plan/run_policy.h"
#include "launcher/plan/signal_plan.h"

namespace lr::launcher {

/// Where an option's value came from.
enum class ValueSource { kDefault, kEnvironment, kCommandLine };

enum class DryRun { kOff, kText, kJson };

/// One line of the dry run.
struct ResolvedOption {
  std::string name;  ///< "--nproc-per-node"
  std::string value;
  ValueSource source = ValueSource::kDefault;
  std::string variable;  ///< PET_… or another one, when the source is the environment
};

/// What is executed once per worker.
struct ProgramPlan {
  std::string given;              ///< as typed: PROGRAM
  std::string executable;         ///< absolute path, or found in PATH
  std::vector<std::string> argv;  ///< argv[0] included; ${local_rank} not yet replaced
  size_t first_argument = 1;      ///< where in argv the program's own arguments begin
  bool native =
      false;  ///< our trainer: speaks the worker protocol, guarded against foreign variables
  std::string output_dir = {};  ///< native: where it saves, as far as its arguments tell
  std::string
      kind;  ///< for people: "native program", "python script", "python module", "executable"
};

/// Limits of the rendezvous, each settable by --rdzv-conf (3.7).
struct RendezvousTimes {
  std::chrono::milliseconds commit{10'000};
  std::chrono::milliseconds heartbeat{1'000};
  std::chrono::milliseconds suspect{5'000};
  std::chrono::milliseconds lost{15'000};
  std::chrono::milliseconds last_call{30'000};
  std::chrono::milliseconds reform_last_call{5'000};
  std::chrono::milliseconds host_lost{60'000};
};

/// What protects the rendezvous of several nodes (3.8); empty: nothing.
struct TrustPlan {
  std::string token_file;       ///< --rdzv-token-file
  std::string tls_certificate;  ///< --rdzv-conf tls_cert; the others likewise
  std::string tls_key;
  std::string tls_authorities;
  bool tls_mutual = false;
};

/// Where the nodes meet and where the workers' store will be (spec 3.2, 3.5).
struct EndpointPlan {
  bool standalone = false;  ///< one node: nothing to agree with anybody
  std::string host;
  int worker_port = 0;                 ///< 0: a free one is taken and held
  int control_port = 0;                ///< the first that is tried; 0: follows from worker_port
  bool control_port_explicit = false;  ///< only that one
  bool worker_port_explicit = false;
  std::chrono::seconds join_timeout{600};
  RendezvousTimes times = {};
  std::optional<bool>
      is_host;  ///< --rdzv-conf is_host: serve, or never serve, whatever the address
  TrustPlan trust = {};
};

/// What one worker gets beyond torchrun's variables, by the options of its launcher.
struct WorkerPlacement {
  std::map<std::string, std::string> variables;  ///< win over torchrun's and the inherited ones
  std::vector<int> cpus;  ///< the only ones that it may use, ascending; empty: as the launcher
};

/// --event-log-handler: where the events of a run go besides its record.
struct EventCopies {
  bool console = false;
  std::string file;  ///< JSON lines are appended; empty: none
};

/// How a program that is not ours is asked for a checkpoint, and how it says that it is done (C-6).
struct ForeignCheckpoints {
  int signal = 0;         ///< --ckpt-signal; 0: it cannot be asked
  std::string glob;       ///< --ckpt-glob: a file of this pattern is written anew
  std::string done_file;  ///< --ckpt-done-file: this one is
};

struct LaunchPlan {
  int min_nodes = 1;
  int max_nodes = 1;
  int local_size = 1;
  std::optional<int> node_rank;  ///< only when given
  std::string scheduler;         ///< what started this launcher, for people; empty: nobody known
  std::optional<int> scheduler_index;  ///< of this node among those that it started, where ranks
                                       ///< are agreed on
  EndpointPlan endpoint;
  std::string run_id;                    ///< empty: several nodes and no identity given (R-11)
  std::vector<std::string> local_addrs;  ///< --local-addr: the first is the one that others use
  std::string role = "default";
  ProgramPlan program;
  std::vector<WorkerPlacement> placements;  ///< by local rank; empty: nothing special
  std::string local_rank_option;            ///< "--local-rank": passed to PROGRAM with the rank
  RunPolicy policy;
  std::chrono::milliseconds shutdown_timeout{30'000};
  bool shutdown_auto = false;  ///< a notice that leaves more time is used to the full
  PreemptPlan preempt = {};
  ForeignCheckpoints foreign_checkpoints = {};
  std::map<int, SignalRule> signal_rules = {};  ///< --on-signal
  std::vector<int> signals;                     ///< caught and forwarded, in the order given
  std::string signals_text;                     ///< as torchrun leaves it in the environment
  std::string log_dir;  ///< base of run directories; empty: the state directory, and a temporary
                        ///< one for log files
  LogPlan logs;
  EventCopies event_copies;
  std::string result_file;      ///< --result-file; empty: none
  bool quiet = false;           ///< a failure is told in one line
  bool fold_exit_code = false;  ///< --exit-code=torchrun: every failure is 1
  DryRun dry_run = DryRun::kOff;
  std::vector<ResolvedOption> options;  ///< in the order of the help text
  std::vector<std::string> notes;       ///< one line each, printed before anything starts
};

}  // namespace lr::launcher
