#include "common/contract/native_script.h"

#include "common/base/text.h"

namespace lr {

std::optional<std::string> NativeScriptProgram(std::string_view head) {
  for (const std::string& line : Split(head.substr(0, kNativeScriptSearchBytes), '\n')) {
    if (!line.starts_with(kNativeScriptMarker)) {
      continue;
    }
    const std::string name(Trim(std::string_view(line).substr(kNativeScriptMarker.size())));
    if (!name.empty() && name.find('/') == std::string::npos) {
      return name;
    }
  }
  return std::nullopt;
}

}  // namespace lr
