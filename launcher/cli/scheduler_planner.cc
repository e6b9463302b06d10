#include "launcher/cli/scheduler_planner.h"

#include <utility>

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

class Planner {
 public:
  Planner(const Scheduler& scheduler, CommandLine& line) : scheduler_(scheduler), line_(line) {}

  Result<SchedulerPlan> Plan() {
    plan_.name = DescribeScheduler(scheduler_);
    if (line_.flag(Option::kStandalone)) {
      return std::move(plan_);
    }
    LR_TRY(SupplyNodes());
    LR_ASSIGN(const auto range,
              ReadNodeRange(line_.text(Option::kNnodes), line_.spelled(Option::kNnodes)));
    nodes_ = range.second;
    if (nodes_ > 1) {
      LR_ASSIGN(const std::optional<SchedulerNumber> index, FindIndex());
      SupplyRunId(/*of_step=*/index.has_value());
      if (index) {
        SupplyEndpoint();
        LR_TRY(SupplyIndex(*index));
      }
    }
    if (!taken_.empty()) {
      plan_.notes.push_back(fmt::format("{}: {}", scheduler_.name, Join(taken_, ", ")));
    }
    NoteOneOfMany();
    return std::move(plan_);
  }

 private:
  void Take(Option option, std::string value, const std::string& variable) {
    taken_.push_back(fmt::format("{}={} ({})", SpecOf(option).name, value, variable));
    std::string spelled = fmt::format("{}={}", variable, value);
    line_.given[option] = {std::move(value), ValueSource::kEnvironment, std::move(spelled)};
  }

  Status TooMany(const SlurmStep& step) const {
    return InvalidArgument(
        "{} runs {} tasks on {} machines, so lr-launch was started {} times on each; start it once "
        "per machine (srun --ntasks-per-node=1), or give --nnodes={} if one launcher per task is "
        "meant",
        scheduler_.name,
        step.tasks.value,
        step.machines.value,
        (step.tasks.value + step.machines.value - 1) / step.machines.value,
        step.tasks.value);
  }

  Status SupplyNodes() {
    if (line_.has(Option::kNnodes) || !scheduler_.step || scheduler_.step->tasks.value <= 1) {
      return {};
    }
    const SlurmStep& step = *scheduler_.step;
    if (step.tasks.value != step.machines.value) {
      return TooMany(step);
    }
    Take(Option::kNnodes, std::to_string(step.machines.value), step.machines.variable);
    return {};
  }

  /// This node's place among those that the scheduler started; nullopt where the run is made of
  /// several steps, or of launchers that were started by hand.
  Result<std::optional<SchedulerNumber>> FindIndex() const {
    if (!scheduler_.step) {
      return scheduler_.index;
    }
    const SlurmStep& step = *scheduler_.step;
    const int tasks = step.tasks.value;
    if (tasks > step.machines.value && nodes_ == step.machines.value) {
      return TooMany(step);
    }
    if (tasks < nodes_) {
      return std::optional<SchedulerNumber>();
    }
    return std::optional(tasks == step.machines.value ? step.machine : step.task);
  }

  /// R-11; the literal default is no identity. Launchers of several steps share the job alone.
  void SupplyRunId(bool of_step) {
    const std::string given = line_.text(Option::kRdzvId);
    const std::string& id = of_step ? scheduler_.step_id : scheduler_.job_id;
    if ((given.empty() || given == "none") && !id.empty()) {
      Take(Option::kRdzvId,
           id,
           scheduler_.kind == Scheduler::Kind::kSlurm ? "SLURM_JOB_ID" : "its name");
    }
  }

  void SupplyEndpoint() {
    if (!scheduler_.first_host.empty() && !line_.has(Option::kRdzvEndpoint) &&
        !line_.has(Option::kMasterAddr)) {
      Take(Option::kRdzvEndpoint, scheduler_.first_host, scheduler_.first_host_variable);
    }
  }

  Status SupplyIndex(const SchedulerNumber& index) {
    if (line_.has(Option::kNodeRank)) {
      return {};
    }
    if (line_.text(Option::kRdzvBackend) != "static") {
      plan_.index = index.value;
      return {};
    }
    if (index.value >= nodes_) {
      return InvalidArgument(
          "{}: this is number {} ({}), but the run has {} nodes; start as many launchers as it has "
          "nodes, or give another --nnodes",
          scheduler_.name,
          index.value,
          index.variable,
          nodes_);
    }
    Take(Option::kNodeRank, std::to_string(index.value), index.variable);
    return {};
  }

  /// A batch script runs on the first machine alone, which is easily forgotten.
  void NoteOneOfMany() {
    const bool script = scheduler_.kind == Scheduler::Kind::kSlurm && !scheduler_.step;
    if (script && scheduler_.job_machines > 1 && !line_.has(Option::kNodeRank)) {
      plan_.notes.push_back(
          fmt::format("{} has {} machines, but no step started this lr-launch, so it is the only "
                      "one; srun --ntasks-per-node=1 starts one on each",
                      scheduler_.name,
                      scheduler_.job_machines));
    }
  }

  const Scheduler& scheduler_;
  CommandLine& line_;
  SchedulerPlan plan_;
  int nodes_ = 1;
  std::vector<std::string> taken_;
};

}  // namespace

Result<SchedulerPlan> ApplyScheduler(const std::optional<Scheduler>& scheduler, CommandLine& line) {
  return scheduler ? Planner(*scheduler, line).Plan() : SchedulerPlan();
}

}  // namespace lr::launcher
