#pragma once
/// Shard and replicate groups for ranks as threads (rank_threads.h).

#include <string>

#include <fmt/format.h>

#include "tests/support/rank_threads.h"
#include "worker/comm/shard_groups.h"

namespace lr::testing {

inline worker::ShardGroups MakeShardGroups(const c10::intrusive_ptr<c10d::Store>& store,
                                           int rank,
                                           int replicate,
                                           int shard) {
  const auto make = [&](const std::string& name, int group_rank, int size) {
    return size == 1 ? worker::GroupPtr()
                     : MakeDataGroup(
                           c10::make_intrusive<c10d::PrefixStore>(name, store), group_rank, size);
  };
  worker::ShardGroups groups;
  groups.shard_size = shard;
  groups.shard_rank = rank % shard;
  groups.replicate_size = replicate;
  groups.gather = make(fmt::format("gather/{}", rank / shard), rank % shard, shard);
  groups.reduce = make(fmt::format("reduce/{}", rank / shard), rank % shard, shard);
  groups.replicate = make(fmt::format("replicate/{}", rank % shard), rank / shard, replicate);
  groups.world = make("world", rank, replicate * shard);
  return groups;
}

}  // namespace lr::testing
