#include "launcher/plan/worker_variables.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "common/base/check.h"

namespace lr::launcher {
namespace {

/// The interpreter and its own options come before the program's arguments; `$` in a path is the
/// user's, too, so every argument after argv[0] is treated alike.
std::string ReplaceLocalRank(const std::string& argument, const std::string& rank) {
  constexpr std::string_view kBraced = "${local_rank}";
  constexpr std::string_view kPlain = "$local_rank";
  std::string text;
  for (size_t at = 0; at < argument.size();) {
    const std::string_view rest = std::string_view(argument).substr(at);
    if (rest.starts_with(kBraced)) {
      text += rank;
      at += kBraced.size();
      continue;
    }
    const char next = rest.size() > kPlain.size() ? rest[kPlain.size()] : ' ';
    const bool longer_name = next == '_' || (std::isalnum(static_cast<unsigned char>(next)) != 0);
    if (rest.starts_with(kPlain) && !longer_name) {
      text += rank;
      at += kPlain.size();
      continue;
    }
    text += argument[at++];
  }
  return text;
}

void SetRanks(Variables& variables,
              const LaunchPlan& plan,
              const Assignment& assignment,
              const NodeFacts& node,
              int local_rank) {
  const NodeAssignment& own = OwnNode(assignment, node.node_id);
  variables["RANK"] = std::to_string(own.first_rank + local_rank);
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["WORLD_SIZE"] = std::to_string(assignment.world_size);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(own.local_size);
  variables["GROUP_RANK"] = std::to_string(own.node_rank);
  variables["GROUP_WORLD_SIZE"] = std::to_string(assignment.nodes.size());
  variables["ROLE_NAME"] = plan.role;
  variables["ROLE_RANK"] = variables["RANK"];  // one role per run: all nodes carry the same --role
  variables["ROLE_WORLD_SIZE"] = variables["WORLD_SIZE"];
  variables["MASTER_ADDR"] = assignment.master_addr;
  variables["MASTER_PORT"] = std::to_string(assignment.master_port);
}

void SetElastic(Variables& variables,
                const LaunchPlan& plan,
                const Assignment& assignment,
                const NodeFacts& node,
                int local_rank) {
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(assignment.restart_count);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(plan.policy.restarts.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = assignment.run_id;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // rank 0 serves the store itself
  variables["TORCHELASTIC_ERROR_FILE"] = ErrorFilePath(node.attempt_dir, local_rank);
  variables["TORCHELASTIC_SIGNALS_TO_HANDLE"] = plan.signals_text;
  variables.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (plan.local_size > 1) {
    variables.try_emplace("OMP_NUM_THREADS", "1");
  }
}

void SetOurs(Variables& variables, const Assignment& assignment, const NodeFacts& node) {
  variables["LR_RUN_ID"] = assignment.run_id;
  variables["LR_EPOCH"] = std::to_string(assignment.epoch);
  variables["LR_NODE_ID"] = node.node_id;
  variables["LR_CONTROL_SOCKET"] = node.control_socket;
  variables["LR_ATTEMPT_DIR"] = node.attempt_dir;
  variables["LR_RESUME_FROM"] = assignment.resume_from;
}

}  // namespace

const NodeAssignment& OwnNode(const Assignment& assignment, const std::string& node_id) {
  const auto own = std::ranges::find(assignment.nodes, node_id, &NodeAssignment::node_id);
  LR_CHECK(own != assignment.nodes.end(),
           "node {} is not in the assignment of epoch {}",
           node_id,
           assignment.epoch);
  return *own;
}

WorkerPlacement PlacementOf(const LaunchPlan& plan, int local_rank) {
  const auto index = static_cast<size_t>(local_rank);
  return index < plan.placements.size() ? plan.placements[index] : WorkerPlacement();
}

std::string ErrorFilePath(const std::string& attempt_dir, int local_rank) {
  return attempt_dir.empty() ? "" : fmt::format("{}/{}/error.json", attempt_dir, local_rank);
}

Variables WorkerVariables(const Variables& inherited,
                          const LaunchPlan& plan,
                          const Assignment& assignment,
                          const NodeFacts& node,
                          int local_rank) {
  Variables variables = inherited;
  SetRanks(variables, plan, assignment, node, local_rank);
  SetElastic(variables, plan, assignment, node, local_rank);
  SetOurs(variables, assignment, node);
  for (const auto& [name, value] : PlacementOf(plan, local_rank).variables) {
    variables[name] = value;
  }
  return variables;
}

std::vector<std::string> WorkerArguments(const LaunchPlan& plan, int local_rank) {
  std::vector<std::string> argv;
  const std::string rank = std::to_string(local_rank);
  for (const std::string& argument : plan.program.argv) {
    argv.push_back(argv.empty() ? argument : ReplaceLocalRank(argument, rank));
  }
  if (!plan.local_rank_option.empty()) {
    argv.insert(argv.begin() + static_cast<std::ptrdiff_t>(plan.program.first_argument),
                fmt::format("{}={}", plan.local_rank_option, rank));
  }
  return argv;
}

std::vector<std::string> EnvironmentNotes(const Variables& inherited, const LaunchPlan& plan) {
  std::vector<std::string> notes;
  if (plan.local_size > 1 && !inherited.contains("OMP_NUM_THREADS") &&
      !PlacementOf(plan, 0).variables.contains("OMP_NUM_THREADS")) {
    notes.push_back(fmt::format(
        "OMP_NUM_THREADS is set to 1 for each of the {} workers of this node, so that they do not "
        "overload it; set OMP_NUM_THREADS yourself to tune",
        plan.local_size));
  }
  const auto rank = inherited.find("RANK");
  const auto world = inherited.find("WORLD_SIZE");
  const std::string planned = std::to_string(plan.max_nodes * plan.local_size);
  if (world != inherited.end() && world->second != planned) {
    notes.push_back(
        fmt::format("the inherited WORLD_SIZE={}{} is replaced for the workers: this run has {} "
                    "node(s) with {} worker(s) here",
                    world->second,
                    rank == inherited.end() ? "" : fmt::format(" RANK={}", rank->second),
                    plan.max_nodes,
                    plan.local_size));
  }
  return notes;
}

}  // namespace lr::launcher
