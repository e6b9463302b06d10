// (pure) Intersections of row ranges.
#include "worker/checkpoint/dcp/dcp_read_plan.h"

#include <algorithm>
#include <tuple>

namespace lr::worker {

std::vector<DcpPiece> PlanDcpRead(const DcpTensor& tensor, DcpRows wanted) {
  std::vector<DcpPiece> pieces;
  for (const DcpChunk& chunk : tensor.chunks) {
    const int64_t begin = chunk.offsets.empty() ? 0 : chunk.offsets[0];
    const int64_t end = begin + (chunk.sizes.empty() ? 1 : chunk.sizes[0]);
    const int64_t first = std::max(begin, wanted.first);
    const int64_t last = std::min(end, wanted.first + wanted.count);
    if (first < last) {
      pieces.push_back({&chunk, first - begin, last - first, first - wanted.first});
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const DcpPiece& a, const DcpPiece& b) {
    return std::tie(a.chunk->location.file, a.chunk->location.offset) <
           std::tie(b.chunk->location.file, b.chunk->location.offset);
  });
  return pieces;
}

}  // namespace lr::worker
