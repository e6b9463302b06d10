/// Windows over dataset keys and their clamping at episode ends. Pure.
#include "worker/data/windows.h"

#include <algorithm>

namespace lr::worker {

WindowMap MakeWindows(const DatasetFeatures& features,
                      const PolicyWindows& windows,
                      const std::map<std::string, std::string>& rename_map) {
  WindowMap result;
  for (const auto& [key, feature] : features) {
    const auto renamed = rename_map.find(key);
    const std::string& name = renamed == rename_map.end() ? key : renamed->second;
    const std::vector<int64_t>* offsets = nullptr;
    if (name == "action") {
      offsets = &windows.action;
    } else if (name == "next.reward") {
      offsets = &windows.reward;
    } else if (name.starts_with("observation.")) {
      offsets = &windows.observation;
    }
    if (offsets != nullptr && !offsets->empty()) {
      result[key] = *offsets;
    }
  }
  return result;
}

WindowFrame FrameAtOffset(Frame current, int64_t offset, Frame from, Frame to) {
  const int64_t wanted = current.number + offset;
  const int64_t clamped = std::clamp(wanted, from.number, to.number - 1);
  return {Frame{clamped}, clamped != wanted};
}

}  // namespace lr::worker
