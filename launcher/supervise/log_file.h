#pragma once
/// One file of the log tree: appended to, and rotated when it would become too large (L-34). Blocks
/// as the disk does; used on the thread of LogWriter only.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "launcher/supervise/process.h"

namespace lr::launcher {

struct RotationLimits {
  uint64_t max_bytes = 0;  ///< 0: never rotated
  int kept = 0;            ///< rotated files that are kept: <path>.1 is the newest
};

class LogFile {
 public:
  LogFile(std::string path, RotationLimits limits) : path_(std::move(path)), limits_(limits) {}

  /// Makes the file if there is none; what is in it stays (L-36).
  Status Open();

  /// Rotates between lines; a line is cut only where it alone is longer than a file may be, or
  /// where its beginning was written before.
  Status Append(std::string_view bytes);

  bool ends_in_line() const { return ends_in_line_; }

 private:
  Status Write(std::string_view bytes);
  Status Rotate();

  std::string path_;
  RotationLimits limits_;
  Descriptor file_;
  uint64_t size_ = 0;
  bool ends_in_line_ = false;  ///< the last byte is not a newline
};

}  // namespace lr::launcher
