#pragma once
/// Files that torch.save wrote, as far as they hold a plain dictionary of tensors: today's zip
/// archives and the format before version 1.6, in which many published weights still are.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"

namespace lr::worker {

/// Every tensor with memory of its own, in dictionary order. Blocking; peak memory about twice the
/// file. Errors: kNotFound, kInvalidArgument (not such a file, or more than tensors in it),
/// kDataLoss (cut short).
Result<std::vector<std::pair<std::string, at::Tensor>>> ReadTorchFile(
    const std::filesystem::path& path);

}  // namespace lr::worker
