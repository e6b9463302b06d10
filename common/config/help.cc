// The help text of a field table.
#include "common/base/text.h"
#include "common/config/group.h"

namespace lr::config {

namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 6;
constexpr size_t kLongestDefault = 50;

std::string Wrapped(const std::string& text) {
  std::string out;
  size_t column = 0;
  for (const std::string& word : Split(text, ' ')) {
    if (column > 0 && kIndent + column + 1 + word.size() > kColumns) {
      out += '\n';
      column = 0;
    }
    out += column == 0 ? std::string(kIndent, ' ') : " ";
    column += (column == 0 ? 0 : 1) + word.size();
    out += word;
  }
  return out + "\n";
}

}  // namespace

std::string RenderHelp(const std::vector<FieldHelp>& help) {
  std::string out;
  for (const FieldHelp& field : help) {
    if (field.starts_group) {
      out += fmt::format("\n--{}.*: {}\n", field.flag, field.text);
      continue;
    }
    const std::string flag = fmt::format("  --{}={}", field.flag, field.type);
    const bool cut = field.fallback.size() > kLongestDefault;
    const std::string fallback =
        fmt::format("(default {}{})", field.fallback.substr(0, kLongestDefault), cut ? "..." : "");
    const bool fits = flag.size() + 2 + fallback.size() <= kColumns;
    const char* gap = fits ? "  " : "\n      ";
    out += fmt::format("{}{}{}\n", flag, gap, fallback);
    out += Wrapped(field.text);
  }
  return out;
}

}  // namespace lr::config
