#include "launcher/rendezvous/join_check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"

namespace lr::launcher {
namespace {

using Members = std::vector<const NodeIdentity*>;

Refused Refuse(RefusalCode code, std::string text) {
  return {code, kExitRendezvousRefused, std::move(text)};
}

std::string RunName(const std::string& run_id) {
  return run_id.empty() ? "none (no --rdzv-id given)" : fmt::format("'{}'", run_id);
}

std::string ValueOrNothing(const std::string* value) {
  return value == nullptr ? "nothing" : fmt::format("'{}'", *value);
}

std::optional<Refused> CheckIdentity(const Hello& hello, const RunRules& rules) {
  const NodeIdentity& node = hello.identity;
  if (node.run_id != rules.run_id) {
    return Refuse(RefusalCode::kWrongRun,
                  fmt::format("wrong run: this endpoint serves run {}, but {} wants to join run {}",
                              RunName(rules.run_id),
                              DescribeNode(node),
                              RunName(node.run_id)));
  }
  if (hello.protocol != kProtocolVersion) {
    return Refuse(RefusalCode::kVersion,
                  fmt::format("protocol version {} of {} is {} than the host's {}; use the same "
                              "build of lr-launch on every node",
                              hello.protocol,
                              DescribeNode(node),
                              hello.protocol < kProtocolVersion ? "older" : "newer",
                              kProtocolVersion));
  }
  return std::nullopt;
}

Refused Mismatch(const std::string& field,
                 const std::string& here,
                 const NodeIdentity& member,
                 const std::string& there,
                 const NodeIdentity& node) {
  return Refuse(RefusalCode::kPlanMismatch,
                fmt::format("plan mismatch in {}: {} has {}, {} has {}; start every node with the "
                            "same command",
                            field,
                            DescribeNode(member),
                            here,
                            DescribeNode(node),
                            there));
}

/// field by field against the first member, so that both values and both hosts can be named.
std::optional<Refused> CheckPlan(const NodeIdentity& node, const NodeIdentity& member) {
  if (node.min_nodes != member.min_nodes || node.max_nodes != member.max_nodes) {
    const auto range = [](const NodeIdentity& n) {
      return n.min_nodes == n.max_nodes ? fmt::format("{}", n.max_nodes)
                                        : fmt::format("{}:{}", n.min_nodes, n.max_nodes);
    };
    return Mismatch("--nnodes", range(member), member, range(node), node);
  }
  if (node.program_name != member.program_name) {
    return Mismatch("the program",
                    ValueOrNothing(&member.program_name),
                    member,
                    ValueOrNothing(&node.program_name),
                    node);
  }
  const std::map<std::string, std::string> mine(node.plan_digest.begin(), node.plan_digest.end());
  const std::map<std::string, std::string> theirs(member.plan_digest.begin(),
                                                  member.plan_digest.end());
  const auto find = [](const std::map<std::string, std::string>& fields, const std::string& name) {
    const auto it = fields.find(name);
    return it == fields.end() ? nullptr : &it->second;
  };
  std::map<std::string, std::string> all = theirs;
  all.insert(mine.begin(), mine.end());
  for (const auto& [field, unused] : all) {
    const std::string* here = find(theirs, field);
    const std::string* there = find(mine, field);
    if (here == nullptr || there == nullptr || *here != *there) {
      return Mismatch(field, ValueOrNothing(here), member, ValueOrNothing(there), node);
    }
  }
  return std::nullopt;
}

std::optional<Refused> CheckRank(const NodeIdentity& node,
                                 const Members& members,
                                 const RunRules& rules) {
  if (!node.node_rank) {
    return Refuse(RefusalCode::kRankMissing,
                  fmt::format("{} gave no node rank; start each of the {} nodes with its own "
                              "--node-rank, 0 to {}",
                              DescribeNode(node),
                              rules.max_nodes,
                              rules.max_nodes - 1));
  }
  if (*node.node_rank < 0 || *node.node_rank >= rules.max_nodes) {
    return Refuse(RefusalCode::kRankOutOfRange,
                  fmt::format("node rank {} of {} is out of range: with --nnodes={} it is 0 to {}",
                              *node.node_rank,
                              DescribeNode(node),
                              rules.max_nodes,
                              rules.max_nodes - 1));
  }
  const auto holder = std::ranges::find_if(
      members, [&](const NodeIdentity* member) { return member->node_rank == node.node_rank; });
  if (holder != members.end()) {
    return Refuse(RefusalCode::kDuplicateRank,
                  fmt::format("node rank {} is given twice: {} has it, and {} asks for it; every "
                              "node needs its own --node-rank, 0 to {}",
                              *node.node_rank,
                              DescribeNode(**holder),
                              DescribeNode(node),
                              rules.max_nodes - 1));
  }
  return std::nullopt;
}

std::optional<Refused> CheckSize(const NodeIdentity& node,
                                 const Members& members,
                                 const RunRules& rules) {
  if (static_cast<int>(members.size()) >= Capacity(rules)) {
    const auto same_host = std::ranges::count_if(
        members, [&](const NodeIdentity* member) { return member->host_name == node.host_name; });
    return Refuse(
        RefusalCode::kFull,
        fmt::format("the run is full: {} of {} nodes are here, so {} is one too many{}",
                    members.size(),
                    rules.max_nodes,
                    DescribeNode(node),
                    same_host == 0 ? ""
                                   : fmt::format("; {} launchers of this run on host {}: was one "
                                                 "per node meant?",
                                                 same_host + 1,
                                                 node.host_name)));
  }
  int64_t ranks = node.local_size;
  for (const NodeIdentity* member : members) {
    ranks += member->local_size;
  }
  if (node.local_size < 1 || ranks > kMaxRanks) {
    return Refuse(RefusalCode::kTooLarge,
                  fmt::format("{} brings {} workers: a node has at least 1 and a run at most {}",
                              DescribeNode(node),
                              node.local_size,
                              kMaxRanks));
  }
  return std::nullopt;
}

}  // namespace

int Capacity(const RunRules& rules) {
  return rules.min_nodes < rules.max_nodes ? kMaxNodes : rules.max_nodes + rules.policy.spares;
}

std::string DescribeNode(const NodeIdentity& node) {
  return fmt::format("{} (pid {})", node.host_name, node.pid);
}

std::optional<Refused> CheckJoin(const Hello& hello,
                                 const Members& members,
                                 const RunRules& rules) {
  const NodeIdentity& node = hello.identity;
  if (std::optional<Refused> refused = CheckIdentity(hello, rules)) {
    return refused;
  }
  const auto twin = std::ranges::find_if(
      members, [&](const NodeIdentity* member) { return member->node_id == node.node_id; });
  if (twin != members.end()) {
    return Refuse(RefusalCode::kDuplicateNode,
                  fmt::format("{} joins with the instance id of {}, which is a member already",
                              DescribeNode(node),
                              DescribeNode(**twin)));
  }
  if (!members.empty()) {
    if (std::optional<Refused> refused = CheckPlan(node, *members.front())) {
      return refused;
    }
  }
  if (rules.strict_ranks && rules.max_nodes > 1) {
    if (std::optional<Refused> refused = CheckRank(node, members, rules)) {
      return refused;
    }
  }
  return CheckSize(node, members, rules);
}

}  // namespace lr::launcher
