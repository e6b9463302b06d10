#include "launcher/supervise/tail_buffer.h"

#include <algorithm>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

constexpr size_t kLongestLine = 2000;

/// What a terminal would show of the line: the part after the last carriage return that is followed
/// by text.
std::string_view Visible(std::string_view line) {
  while (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const size_t carriage = line.rfind('\r');
  return carriage == std::string_view::npos ? line : line.substr(carriage + 1);
}

}  // namespace

void TailBuffer::Append(std::string_view bytes) {
  if (bytes.size() > kCapacity) {
    bytes.remove_prefix(bytes.size() - kCapacity);
  }
  if (bytes_.size() + bytes.size() > 2 * kCapacity) {
    bytes_.erase(0, bytes_.size() - std::min(bytes_.size(), kCapacity));
  }
  bytes_ += bytes;
}

std::vector<std::string> TailBuffer::Lines(size_t count) const {
  std::vector<std::string> lines = Split(bytes_, '\n');
  if (!lines.empty() && Visible(lines.back()).empty()) {
    lines.pop_back();
  }
  if (lines.size() > count) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  }
  for (std::string& line : lines) {
    std::string shown(Visible(line).substr(0, kLongestLine));
    std::ranges::replace_if(
        shown, [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; }, '?');
    line = std::move(shown);
  }
  return lines;
}

}  // namespace lr::launcher
