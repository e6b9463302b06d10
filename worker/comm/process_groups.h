#pragma once
/// The process groups of one worker: a data group of all ranks for gradients (NCCL on CUDA, Gloo on
/// CPU), those of its shard and of its replicas, and a control group (Gloo).
///
/// Created once by the step thread, after the environment guard and before anything is loaded;
/// destroyed last.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "worker/comm/communicator.h"
#include "worker/comm/shard_groups.h"

namespace lr::worker {

struct ProcessGroupOptions {
  bool cuda = false;  ///< the data group carries CUDA tensors
  int device_index = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  int shard_size = 1;  ///< ranks that share one copy; divides the world, neighbours in rank
};

/// How many collectives this rank has entered in one group.
struct GroupSequence {
  std::string group;  ///< the same name on all members, and on nobody else
  int64_t entered = 0;
};

class ProcessGroups {
 public:
  /// Meets the other ranks at MASTER_ADDR:MASTER_PORT (rank 0 serves the store unless the agent
  /// does). With one process nothing is opened. Errors: kUnavailable naming address, port and rank
  /// when the peers do not come in time.
  static Result<std::unique_ptr<ProcessGroups>> Create(const WorkerEnvironment& environment,
                                                       const ProcessGroupOptions& options);

  ~ProcessGroups();

  Communicator& control() { return *control_; }

  /// Null with one process.
  const GroupPtr& data() const { return shards_.world; }

  const ShardGroups& shards() const { return shards_; }

  /// Any thread, also while the step thread is inside a collective: the backends' counters are read
  /// as they are, which may be a moment old.
  std::vector<GroupSequence> Sequences() const;

 private:
  ProcessGroups() = default;

  ShardGroups shards_;
  std::unique_ptr<Communicator> control_;
};

}  // namespace lr::worker
