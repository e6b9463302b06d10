#pragma once
/// (pure) Copies a box of elements between two layouts of memory: what a stored block is in its
/// item, and what it is within the whole tensor. Called by DcpDirectory; cannot fail, the caller
/// has checked that every element of the box lies within both.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lr::worker {

/// Row-major strides in elements.
std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& sizes);

/// Dims of size 1 may have any stride.
bool IsContiguous(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);

/// `sizes` elements of `element_bytes` each; strides in elements. A scalar has no sizes.
void CopyStrided(const std::vector<int64_t>& sizes,
                 int64_t element_bytes,
                 const std::byte* source,
                 const std::vector<int64_t>& source_strides,
                 std::byte* target,
                 const std::vector<int64_t>& target_strides);

}  // namespace lr::worker
