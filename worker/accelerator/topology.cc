#include "worker/accelerator/topology.h"

namespace lr::worker {

namespace {

Status CheckRange(const ParallelismConfig& degrees) {
  const std::pair<const char*, int64_t> at_least_one[] = {
      {"dp_replicate", degrees.dp_replicate},
      {"context_parallel.ring_degree", degrees.context_parallel.ring_degree},
      {"context_parallel.ulysses_degree", degrees.context_parallel.ulysses_degree},
      {"cfg_parallel", degrees.cfg_parallel},
  };
  for (const auto& [name, value] : at_least_one) {
    if (value < 1) {
      return InvalidArgument("--parallelism.{}={}: must be at least 1", name, value);
    }
  }
  if (degrees.dp_shard < 1 && degrees.dp_shard != -1) {
    return InvalidArgument("--parallelism.dp_shard={}: must be at least 1, or -1 for all processes",
                           degrees.dp_shard);
  }
  return {};
}

/// Rule 2: -1 takes what dp_replicate leaves of the world.
Result<int64_t> ShardDegree(const ParallelismConfig& degrees, int64_t world_size) {
  if (degrees.dp_shard != -1) {
    return degrees.dp_shard;
  }
  if (world_size % degrees.dp_replicate != 0) {
    return InvalidArgument(
        "--parallelism.dp_shard=-1: WORLD_SIZE={} is not divisible by "
        "--parallelism.dp_replicate={}",
        world_size,
        degrees.dp_replicate);
  }
  return world_size / degrees.dp_replicate;
}

Status CheckProduct(const ParallelismConfig& degrees,
                    const Topology& topology,
                    int64_t world_size,
                    bool resumed) {
  const ContextParallelConfig& context = degrees.context_parallel;
  // Each factor is bounded by the world size, so the product cannot overflow unnoticed.
  int64_t product = 1;
  for (const int64_t degree : {topology.dp_replicate,
                               topology.dp_shard,
                               context.ring_degree,
                               context.ulysses_degree,
                               degrees.cfg_parallel}) {
    if (degree > world_size || product > world_size) {
      product = world_size + 1;
      break;
    }
    product *= degree;
  }
  if (product == world_size) {
    return {};
  }
  return InvalidArgument(
      "Parallelism degrees do not multiply to the world size: dp_replicate={} * dp_shard={} * "
      "ring_degree={} * ulysses_degree={} * cfg_parallel={} != WORLD_SIZE={}{}",
      topology.dp_replicate,
      topology.dp_shard,
      context.ring_degree,
      context.ulysses_degree,
      degrees.cfg_parallel,
      world_size,
      resumed ? "; the checkpoint's degrees can be replaced by --parallelism.* flags" : "");
}

}  // namespace

Result<ResolvedTopology> ResolveTopology(const TopologyRequest& request) {
  const ParallelismConfig& degrees = request.parallelism;
  LR_TRY(CheckRange(degrees));
  ResolvedTopology resolved;
  Topology& topology = resolved.topology;
  topology.uses_sharded_engine = degrees.dp_shard != 1;
  topology.dp_replicate = degrees.dp_replicate;
  LR_ASSIGN(topology.dp_shard, ShardDegree(degrees, request.world_size));
  if (!topology.uses_sharded_engine) {
    if (topology.dp_replicate == 1) {
      topology.dp_replicate = request.world_size;  // a plain multi-process launch is DDP
    } else if (request.resumed && !request.dp_replicate_given &&
               topology.dp_replicate != request.world_size) {
      resolved.note = fmt::format(
          "parallelism.dp_replicate: {} -> {} (the checkpoint's degree follows WORLD_SIZE)",
          topology.dp_replicate,
          request.world_size);
      topology.dp_replicate = request.world_size;
    }
  }
  LR_TRY(CheckProduct(degrees, topology, request.world_size, request.resumed));
  return resolved;
}

}  // namespace lr::worker
