#pragma once
/// (pure) The last part of a stream, for the failure report (L-34): 64 KiB of bytes, read back as
/// lines.

#include <string>
#include <string_view>
#include <vector>

namespace lr::launcher {

class TailBuffer {
 public:
  void Append(std::string_view bytes);

  /// The last lines, oldest first, at most `count`, each cut to 2,000 bytes; of a progress bar only
  /// its last state; control characters replaced, so that a report cannot disturb a terminal.
  std::vector<std::string> Lines(size_t count) const;

 private:
  static constexpr size_t kCapacity = 64 * 1024;

  std::string bytes_;  ///< at most twice the capacity, then cut
};

}  // namespace lr::launcher
