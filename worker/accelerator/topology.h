#pragma once
/// (pure) From the degrees that were asked for and the world size to the layout of the run
/// (sharded_training.md 0.2).

#include <string>

#include "common/base/status.h"
#include "worker/accelerator/accelerator_config.h"

namespace lr::worker {

struct TopologyRequest {
  ParallelismConfig parallelism;
  int64_t world_size = 1;
  bool resumed = false;  ///< `parallelism` comes from a checkpoint's resolved configuration …
  bool dp_replicate_given = false;  ///< … unless the command line states this degree
};

struct ResolvedTopology {
  Topology topology;
  std::string note;  ///< one line for the log; empty: nothing changed
};

/// Degrees that do not multiply to the world size: kInvalidArgument, echoing every degree and
/// WORLD_SIZE.
Result<ResolvedTopology> ResolveTopology(const TopologyRequest& request);

}  // namespace lr::worker
