// (pure) The longest run that is contiguous on both sides is moved at once, the rest dim by dim.
#include "worker/checkpoint/dcp/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace lr::worker {
namespace {

struct Box {
  const std::vector<int64_t>& sizes;
  const std::vector<int64_t>& source_strides;
  const std::vector<int64_t>& target_strides;
  int64_t element_bytes;
  size_t run_dim;  ///< from here on both sides are contiguous
  size_t run_bytes;
};

void CopyDim(const Box& box, size_t dim, const std::byte* source, std::byte* target) {
  if (dim == box.run_dim) {
    std::memcpy(target, source, box.run_bytes);
    return;
  }
  for (int64_t i = 0; i < box.sizes[dim]; ++i) {
    CopyDim(box,
            dim + 1,
            source + i * box.source_strides[dim] * box.element_bytes,
            target + i * box.target_strides[dim] * box.element_bytes);
  }
}

}  // namespace

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t i = sizes.size(); i > 0; --i) {
    strides[i - 1] = next;
    next *= std::max<int64_t>(sizes[i - 1], 1);
  }
  return strides;
}

bool IsContiguous(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  const std::vector<int64_t> expected = ContiguousStrides(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && strides[i] != expected[i]) {
      return false;
    }
  }
  return true;
}

void CopyStrided(const std::vector<int64_t>& sizes,
                 int64_t element_bytes,
                 const std::byte* source,
                 const std::vector<int64_t>& source_strides,
                 std::byte* target,
                 const std::vector<int64_t>& target_strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    return;
  }
  size_t run_dim = sizes.size();
  int64_t run = 1;
  while (run_dim > 0 && (sizes[run_dim - 1] == 1 || (source_strides[run_dim - 1] == run &&
                                                     target_strides[run_dim - 1] == run))) {
    --run_dim;
    run *= sizes[run_dim];
  }
  const Box box{sizes,
                source_strides,
                target_strides,
                element_bytes,
                run_dim,
                static_cast<size_t>(run * element_bytes)};
  CopyDim(box, 0, source, target);
}

}  // namespace lr::worker
