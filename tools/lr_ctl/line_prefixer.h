#pragma once
/// (pure) Puts the name of its source before each line, so that sources can be mixed. A line is
/// passed on when it is complete.

#include <string>
#include <string_view>

namespace lr {

class LinePrefixer {
 public:
  /// An empty prefix passes everything at once and unchanged.
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string Add(std::string_view bytes) {
    if (prefix_.empty()) {
      return std::string(bytes);
    }
    pending_ += bytes;
    std::string lines;
    size_t start = 0;
    for (size_t end = 0; (end = pending_.find('\n', start)) != std::string::npos; start = end + 1) {
      lines += prefix_ + pending_.substr(start, end + 1 - start);
    }
    pending_.erase(0, start);
    return lines;
  }

  /// The source has ended.
  std::string Finish() { return pending_.empty() ? "" : Add("\n"); }

 private:
  std::string prefix_;
  std::string pending_;
};

}  // namespace lr
