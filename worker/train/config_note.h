#pragma once
/// One line for the log, kept until logging exists.

#include <string>

namespace lr::worker {

struct ConfigNote {
  enum class Level { kInfo, kWarning };
  Level level = Level::kInfo;
  std::string text;
};

}  // namespace lr::worker
