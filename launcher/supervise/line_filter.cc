#include "launcher/supervise/line_filter.h"

#include <algorithm>
#include <utility>

namespace lr::launcher {
namespace {

constexpr size_t kLongestHeldLine = 64 * 1024;

}  // namespace

void LineFilter::Judge(std::string_view line, std::string& out) const {
  const bool matches = std::ranges::any_of(
      texts_, [&](const std::string& text) { return line.find(text) != std::string_view::npos; });
  if (matches) {
    out += prefix_;
    out += line;
    out += '\n';
  }
}

std::string LineFilter::Feed(std::string_view bytes) {
  std::string out;
  while (true) {
    const size_t newline = bytes.find('\n');
    pending_ += bytes.substr(0, newline);
    if (newline == std::string_view::npos) {
      return pending_.size() > kLongestHeldLine ? out + Finish() : out;
    }
    out += Finish();
    bytes.remove_prefix(newline + 1);
  }
}

std::string LineFilter::Finish() {
  std::string out;
  Judge(std::exchange(pending_, ""), out);
  return out;
}

}  // namespace lr::launcher
