// (pure) Source of the choice: torch/distributed/checkpoint/_dedup_save_plans.py. A block is
// weighed with the size of its whole tensor, as there.
#include "worker/checkpoint/dcp/dcp_save_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "worker/parallel/shard_layout.h"

namespace lr::worker {
namespace {

DcpBlock BlockOf(const DcpProposal& proposal, size_t index, int shard_rank, int shard_size) {
  DcpBlock block{index, std::vector<int64_t>(proposal.size.size(), 0), proposal.size};
  if (proposal.is_sharded) {
    const DcpRows rows = RowsOfShard(proposal.size[0], shard_rank, shard_size);
    block.offsets[0] = rows.first;
    block.sizes[0] = rows.count;
  }
  return block;
}

int64_t WeightOf(const DcpProposal& proposal) {
  int64_t weight = proposal.element_bytes;
  for (const int64_t size : proposal.size) {
    weight *= size;
  }
  return std::max<int64_t>(weight, 1);
}

/// A block and the ranks that have it.
struct Candidate {
  DcpBlock block;
  std::vector<int> ranks;
};

/// In order of first appearance, walking rank by rank.
std::vector<Candidate> Candidates(const std::vector<DcpProposal>& proposals,
                                  int shard_size,
                                  int replicate_size) {
  std::vector<Candidate> candidates;
  std::map<std::pair<size_t, int64_t>, size_t> known;  // (proposal, first row)
  for (int rank = 0; rank < shard_size * replicate_size; ++rank) {
    for (size_t i = 0; i < proposals.size(); ++i) {
      DcpBlock block = BlockOf(proposals[i], i, rank % shard_size, shard_size);
      const int64_t first_row = block.offsets.empty() ? 0 : block.offsets[0];
      const auto [place, is_new] = known.try_emplace({i, first_row}, candidates.size());
      if (is_new) {
        candidates.push_back({std::move(block), {}});
      }
      candidates[place->second].ranks.push_back(rank);
    }
  }
  return candidates;
}

}  // namespace

DcpRows RowsOfShard(int64_t rows, int shard_rank, int shard_size) {
  const ShardLayout layout(rows, 1, shard_size);
  return {layout.FirstRow(shard_rank), layout.RowsOf(shard_rank)};
}

std::vector<std::vector<DcpBlock>> PlanDcpSave(const std::vector<DcpProposal>& proposals,
                                               int shard_size,
                                               int replicate_size) {
  const auto world = static_cast<size_t>(shard_size * replicate_size);
  std::vector<std::vector<DcpBlock>> plan(world);
  std::vector<int64_t> load(world, 0);
  for (Candidate& candidate : Candidates(proposals, shard_size, replicate_size)) {
    const int chosen =
        *std::min_element(candidate.ranks.begin(), candidate.ranks.end(), [&](int a, int b) {
          return load[static_cast<size_t>(a)] < load[static_cast<size_t>(b)];
        });
    load[static_cast<size_t>(chosen)] += WeightOf(proposals[candidate.block.proposal]);
    plan[static_cast<size_t>(chosen)].push_back(std::move(candidate.block));
  }
  for (std::vector<DcpBlock>& blocks : plan) {
    std::sort(blocks.begin(), blocks.end(), [&](const DcpBlock& a, const DcpBlock& b) {
      const bool a_is_tensor = proposals[a.proposal].element_bytes > 0;
      const bool b_is_tensor = proposals[b.proposal].element_bytes > 0;
      return std::pair(a_is_tensor, a.proposal) < std::pair(b_is_tensor, b.proposal);
    });
  }
  return plan;
}

}  // namespace lr::worker
