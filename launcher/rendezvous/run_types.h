#pragma once
/// (pure) What a node is and what it may ask for or be told, as plain data: shared by the public
/// face (membership.h), the run machine and the messages.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/checkpoint_requests.h"

namespace lr::launcher {

/// What a node brings to the rendezvous.
struct NodeIdentity {
  std::string node_id;
  std::string run_id;  ///< empty: the literal default was left (R-11)
  std::string host_name;
  int64_t pid = 0;
  int local_size = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  std::optional<int> node_rank;             ///< explicit --node-rank
  std::optional<int> scheduler_index = {};  ///< where the scheduler numbered the nodes
  std::string local_addr;                   ///< explicit --local-addr, else empty
  std::string program_name;                 ///< for the plan digest
  std::vector<std::pair<std::string, std::string>>
      plan_digest;  ///< field -> hash or value, compared field by field (R-12)
};

struct StopOrder {
  StopReason reason = StopReason::kWorkerFailed;
  std::string text;  ///< why, in words
  int signal = 15;
  int64_t within_ms = 0;  ///< until the machine is gone; 0: not known
};

/// What one rank's threads do (S-23), as text.
struct RankStack {
  int rank = 0;
  std::string text;
};

/// What the host tells all nodes about the progress of the run.
struct WatchReport {
  enum class Kind { kHang, kHangOver, kStacks, kStragglers };
  Kind kind = Kind::kHang;
  std::string id;                      ///< of the stacks, or of the request that is answered
  std::string text;                    ///< one or more lines, without a newline at the end
  std::vector<int> ranks = {};         ///< those that are absent, or slow
  std::vector<RankStack> stacks = {};  ///< as many as fit, those of `ranks` first
};

}  // namespace lr::launcher
