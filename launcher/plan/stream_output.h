#pragma once
/// (pure) Where the output of one worker goes, by torchrun's rules (L-30, L-31, L-32). Called once
/// per worker and stream before the worker starts.

#include <string>
#include <vector>

#include "launcher/plan/log_plan.h"

namespace lr::launcher {

struct StreamOutput {
  bool to_console = true;
  bool whole_lines = true;  ///< false: bytes pass to the console at once and unchanged
  std::string prefix = {};  ///< of console lines
  std::string file = {};    ///< path; empty: none
  std::string filtered_file = {};
  std::string filtered_prefix = {};
  std::vector<std::string> filters = {};  ///< lines that contain one are copied to filtered_file
};

/// The worker as far as its output is concerned.
struct WorkerName {
  std::string role;
  std::string host_name;
  int rank = 0;
  int local_rank = 0;
  int node_rank = 0;
  bool alone = false;  ///< the only worker of its node
};

/// `attempt_dir` holds the files; empty: it could not be made, and redirected streams go to the
/// console after all, or files are discarded.
StreamOutput PlanStreamOutput(const LogPlan& plan,
                              WorkerStream stream,
                              const WorkerName& worker,
                              const std::string& attempt_dir);

/// True when the plan leads to at least one file.
bool WantsLogFiles(const LogPlan& plan);

/// The prefix for this worker by the rules of Python's string.Template: ${name} and $name for
/// role_name, rank, local_rank, node_rank, hostname and host; $$ is a dollar; anything else stays
/// as it is.
std::string FillPrefix(const std::string& prefix_template, const WorkerName& worker);

}  // namespace lr::launcher
