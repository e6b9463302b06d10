#pragma once
/// Reads one log file of a run with its rotated parts (<path>.1 is the newest of them), while it
/// may still grow and rotate. Blocking; one thread.

#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace lr {

class LogReader {
 public:
  /// A file that does not exist yet is looked for at each Read().
  explicit LogReader(std::string path) : path_(std::move(path)) {}

  /// Before the first Read(): starts with the last `lines` lines instead of the oldest part.
  void SkipToLast(size_t lines);

  /// The next bytes, a bounded number; empty when there are none now.
  std::string Read();

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };

  using File = std::unique_ptr<std::FILE, Close>;

  /// Opens what is newer than the newest open part; true when there was something.
  bool OpenNewer();

  std::string path_;
  std::deque<File> parts_;  ///< oldest first
};

}  // namespace lr
