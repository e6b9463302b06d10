#include "launcher/worker_specs.h"

namespace lr::launcher {

std::vector<WorkerSpec> MakeWorkerSpecs(const LaunchPlan& plan,
                                        const Assignment& assignment,
                                        const NodeFacts& node,
                                        const Variables& inherited) {
  const NodeAssignment& own = OwnNode(assignment, node.node_id);
  const bool several = own.local_size > 1;
  std::vector<WorkerSpec> specs;
  for (int local_rank = 0; local_rank < own.local_size; ++local_rank) {
    const WorkerName name{.role = plan.role,
                          .host_name = own.host_name,
                          .rank = own.first_rank + local_rank,
                          .local_rank = local_rank,
                          .node_rank = own.node_rank,
                          .alone = !several};
    specs.push_back({
        .rank = name.rank,
        .local_rank = local_rank,
        .node_rank = own.node_rank,
        .host_name = own.host_name,
        .executable = plan.program.executable,
        .argv = WorkerArguments(plan, local_rank),
        .environment = WorkerVariables(inherited, plan, assignment, node, local_rank),
        .out = PlanStreamOutput(plan.logs, WorkerStream::kOut, name, node.attempt_dir),
        .err = PlanStreamOutput(plan.logs, WorkerStream::kErr, name, node.attempt_dir),
        .error_file = ErrorFilePath(node.attempt_dir, local_rank),
        .inherit_stdin = !several,
        .cpus = PlacementOf(plan, local_rank).cpus,
        .terminal = plan.logs.tty && name.rank == 0,
    });
  }
  return specs;
}

}  // namespace lr::launcher
