#include "tools/lr_ctl/watch_screen.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr {
namespace {

/// At most `columns` bytes, without a part of a UTF-8 character at the end.
std::string CutLine(const std::string& line, size_t columns) {
  if (line.size() <= columns) {
    return line;
  }
  size_t end = columns;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) {
    --end;
  }
  return line.substr(0, end);
}

}  // namespace

std::string FitToScreen(const std::string& text, ScreenSize size) {
  std::vector<std::string> lines = Split(text, '\n');
  const size_t room = std::max<size_t>(size.rows, 3) - 1;
  if (lines.size() > room) {
    const size_t hidden = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back(fmt::format("... {} more lines", hidden));
  }
  for (std::string& line : lines) {
    line = CutLine(line, size.columns);
  }
  return Join(lines, "\n");
}

std::string Redraw(const std::string& before, const std::string& now) {
  std::string out;
  if (!before.empty()) {
    out = fmt::format("\x1b[{}A\r\x1b[J", std::count(before.begin(), before.end(), '\n') + 1);
  }
  return out + now + "\n";
}

}  // namespace lr
