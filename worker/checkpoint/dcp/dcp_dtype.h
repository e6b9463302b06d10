#pragma once
/// (pure) The element types of a torch checkpoint: torch's name, the class under which torch.save
/// stores them, their size. Used by everything in this folder; nothing here fails, unknown names
/// are null.

#include <cstdint>
#include <span>
#include <string_view>

namespace lr::worker {

struct DcpDtype {
  std::string_view name;     ///< as a pickle names it: torch.float32
  std::string_view storage;  ///< FloatStorage; empty where torch has no class of its own
  int64_t bytes;             ///< per element
};

/// Every type that a `.metadata` may name.
std::span<const DcpDtype> DcpDtypes();

/// Null when there is no such type. The result lives for ever.
const DcpDtype* FindDcpDtype(std::string_view name);

}  // namespace lr::worker
