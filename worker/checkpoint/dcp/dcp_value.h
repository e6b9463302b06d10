#pragma once
/// (pure) The plain values beside the tensors (options of an optimizer), as torch.save pickles them
/// (checkpoints.md 4.4.4). Bytes items of a checkpoint hold one each.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// None, bool, int, float, text, tuple of numbers, list of texts.
using DcpValue = std::variant<std::monostate,
                              bool,
                              int64_t,
                              double,
                              std::string,
                              std::vector<double>,
                              std::vector<std::string>>;

std::string PickleDcpValue(const DcpValue& value);

/// Refuses everything else, above all names: torch would run them (kInvalidArgument).
Result<DcpValue> ParseDcpValue(std::string_view pickle);

}  // namespace lr::worker
