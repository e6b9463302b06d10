#include "launcher/cli/scheduler.h"

#include <initializer_list>
#include <limits>
#include <utility>

#include <fmt/chrono.h>

#include "common/base/text.h"
#include "launcher/cli/host_list.h"

namespace lr::launcher {
namespace {

/// From here on step numbers mean Slurm's own steps: the batch script, an interactive shell.
constexpr int64_t kFirstSpecialStep = 4'294'967'280;
constexpr int64_t kLatestTime = 253'402'300'799;  // the end of the year 9999

class Variables {
 public:
  explicit Variables(const EnvironmentReader& environment) : environment_(environment) {}

  /// Empty counts as absent.
  std::optional<std::string> Text(const std::string& name) const {
    std::optional<std::string> text = environment_(name);
    return text && text->empty() ? std::nullopt : text;
  }

  Result<std::optional<int64_t>> Number(const std::string& name, int64_t most) const {
    const std::optional<std::string> text = Text(name);
    if (!text) {
      return std::optional<int64_t>();
    }
    const std::optional<int64_t> value = ParseInt(*text);
    if (!value || *value < 0 || *value > most) {
      return InvalidArgument("{}={}: must be a whole number up to {}", name, *text, most);
    }
    return value;
  }

  /// The first of the names that is there.
  Result<std::optional<SchedulerNumber>> First(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      LR_ASSIGN(const std::optional<int64_t> value, Number(name, std::numeric_limits<int>::max()));
      if (value) {
        return std::optional(SchedulerNumber{name, static_cast<int>(*value)});
      }
    }
    return std::optional<SchedulerNumber>();
  }

 private:
  const EnvironmentReader& environment_;
};

/// Whether srun started this process as a task; a shell of srun --pty is nobody's task.
Result<bool> IsTask(const Variables& variables) {
  LR_ASSIGN(const std::optional<int64_t> step,
            variables.Number("SLURM_STEP_ID", std::numeric_limits<uint32_t>::max()));
  return step && *step < kFirstSpecialStep && !variables.Text("SLURM_PTY_PORT");
}

Status ReadStep(const Variables& variables, Scheduler& slurm) {
  LR_ASSIGN(const auto tasks, variables.First({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}));
  LR_ASSIGN(const auto machines, variables.First({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}));
  LR_ASSIGN(const auto task, variables.First({"SLURM_PROCID"}));
  LR_ASSIGN(const auto machine, variables.First({"SLURM_NODEID"}));
  if (!tasks || !machines || !task || !machine || variables.Text("SLURM_HET_SIZE")) {
    return {};  // a heterogeneous step numbers each of its parts from 0
  }
  slurm.step = SlurmStep{*tasks, *machines, *task, *machine};
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const std::optional<std::string> list = variables.Text(name);
    if (list && slurm.first_host.empty()) {
      const Result<std::vector<std::string>> hosts = ExpandHostList(*list);
      LR_TRY(hosts.status().WithContext("{}", name));
      slurm.first_host = hosts->front();
      slurm.first_host_variable = name;
    }
  }
  return {};
}

Result<Scheduler> ReadSlurm(const Variables& variables, const std::string& job) {
  Scheduler slurm{.name = "Slurm job " + job, .job_id = "slurm-" + job};
  slurm.step_id = slurm.job_id;
  LR_ASSIGN(const auto restarts, variables.First({"SLURM_RESTART_COUNT"}));
  slurm.restarts = restarts ? restarts->value : 0;
  LR_ASSIGN(slurm.ends_at, variables.Number("SLURM_JOB_END_TIME", kLatestTime));
  LR_ASSIGN(const auto machines, variables.First({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}));
  slurm.job_machines = machines ? machines->value : 1;
  LR_ASSIGN(const bool task, IsTask(variables));
  if (task) {
    const std::string step = *variables.Text("SLURM_STEP_ID");
    slurm.name = fmt::format("Slurm step {}.{}", job, step);
    slurm.step_id = fmt::format("slurm-{}.{}", job, step);
    LR_TRY(ReadStep(variables, slurm));
  }
  return slurm;
}

/// Pods of an Indexed Job are called JOB-INDEX, behind the domain of its headless service.
Scheduler ReadKubernetes(SchedulerNumber index, const std::string& full_host_name) {
  Scheduler kubernetes{.kind = Scheduler::Kind::kKubernetes, .name = "Kubernetes job"};
  const size_t dot = std::min(full_host_name.find('.'), full_host_name.size());
  const std::string ending = fmt::format("-{}", index.value);
  if (const std::string pod = full_host_name.substr(0, dot);
      pod.ends_with(ending) && pod.size() > ending.size()) {
    const std::string job = pod.substr(0, pod.size() - ending.size());
    kubernetes.name += " " + job;
    kubernetes.job_id = "k8s-" + job;
    if (dot < full_host_name.size()) {
      kubernetes.first_host = fmt::format("{}-0{}", job, full_host_name.substr(dot));
      kubernetes.first_host_variable = "this pod's name";
    }
  }
  kubernetes.step_id = kubernetes.job_id;
  kubernetes.index = std::move(index);
  return kubernetes;
}

}  // namespace

Result<std::optional<Scheduler>> ReadScheduler(const EnvironmentReader& environment,
                                               const std::string& full_host_name) {
  const Variables variables(environment);
  if (const std::optional<std::string> job = variables.Text("SLURM_JOB_ID")) {
    LR_ASSIGN(Scheduler slurm, ReadSlurm(variables, *job));
    return std::optional(std::move(slurm));
  }
  LR_ASSIGN(std::optional<SchedulerNumber> index, variables.First({"JOB_COMPLETION_INDEX"}));
  if (index) {
    return std::optional(ReadKubernetes(*std::move(index), full_host_name));
  }
  return std::optional<Scheduler>();
}

std::string DescribeScheduler(const Scheduler& scheduler) {
  std::string text = scheduler.name;
  if (const std::optional<SlurmStep>& step = scheduler.step) {
    text += fmt::format(": task {} of {} on {} machine{}",
                        step->task.value,
                        step->tasks.value,
                        step->machines.value,
                        step->machines.value == 1 ? "" : "s");
  } else if (scheduler.index) {
    text += fmt::format(": pod {}", scheduler.index->value);
  }
  if (scheduler.restarts > 0) {
    text += fmt::format(", restart {}", scheduler.restarts);
  }
  if (scheduler.ends_at) {
    text += fmt::format(", ends {:%Y-%m-%dT%H:%M:%SZ}",
                        fmt::gmtime(static_cast<std::time_t>(*scheduler.ends_at)));
  }
  return text;
}

}  // namespace lr::launcher
