#pragma once
/// (pure) What the scheduler that started this lr-launch says about it in the environment (J-40):
/// a Slurm step or job, or a pod of a Kubernetes Indexed Job. Read by scheduler_planner.cc, which
/// decides what becomes of it. Fails with INVALID_ARGUMENT on a variable that should be a number or
/// a host list and is not; without a scheduler there is nothing, which is no failure.

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"

namespace lr::launcher {

/// A variable and what it says.
struct SchedulerNumber {
  std::string variable;
  int value = 0;
};

/// A Slurm step starts one lr-launch per task.
struct SlurmStep {
  SchedulerNumber tasks;
  SchedulerNumber machines;
  SchedulerNumber task;     ///< this one
  SchedulerNumber machine;  ///< the one it runs on
};

struct Scheduler {
  enum class Kind { kSlurm, kKubernetes };

  Kind kind = Kind::kSlurm;
  std::string name;                ///< "Slurm step 77.0", "Slurm job 77", "Kubernetes job train"
  std::string job_id;              ///< "slurm-77": of all that the job starts; empty: unknown
  std::string step_id;             ///< "slurm-77.0"
  int restarts = 0;                ///< of the job by the scheduler
  std::optional<int64_t> ends_at;  ///< of the job, in Unix seconds

  std::optional<SlurmStep> step;         ///< not in a batch script or an interactive shell
  int job_machines = 1;                  ///< Slurm: of the whole job
  std::optional<SchedulerNumber> index;  ///< Kubernetes: of this pod
  std::string first_host;                ///< of the step or the pods; empty: unknown
  std::string first_host_variable;       ///< what told it
};

/// `full_host_name`: this pod's name with the domain of its service; asked under Kubernetes alone.
Result<std::optional<Scheduler>> ReadScheduler(const EnvironmentReader& environment,
                                               const std::string& full_host_name);

/// For people: "Slurm step 77.0: task 1 of 4 on 4 machines, restart 2, ends 2026-03-02T10:11:12Z".
std::string DescribeScheduler(const Scheduler& scheduler);

}  // namespace lr::launcher
