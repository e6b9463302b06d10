#pragma once
/// (pure) Picks the lines of a stream that contain one of several texts, for the filtered files of
/// an attempt. Bytes are not interpreted; a line longer than 64 KiB is judged in parts.

#include <string>
#include <string_view>
#include <vector>

namespace lr::launcher {

class LineFilter {
 public:
  LineFilter(std::vector<std::string> texts, std::string prefix)
      : texts_(std::move(texts)), prefix_(std::move(prefix)) {}

  /// The matching lines that these bytes complete, each with the prefix and a newline.
  std::string Feed(std::string_view bytes);

  /// The unfinished last line, when it matches.
  std::string Finish();

 private:
  void Judge(std::string_view line, std::string& out) const;

  std::vector<std::string> texts_;
  std::string prefix_;
  std::string pending_;
};

}  // namespace lr::launcher
