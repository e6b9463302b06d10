#include "launcher/supervise/output_chunk.h"

#include <algorithm>

namespace lr::launcher {
namespace {

constexpr size_t kLongestHeldLine = 64 * 1024;  // longer lines are passed on in parts

/// The end of the first piece: one past its '\n' or '\r', or npos.
size_t PieceEnd(std::string_view bytes) {
  const size_t newline = bytes.find('\n');
  const size_t carriage = bytes.substr(0, newline).find('\r');
  const size_t end = carriage != std::string_view::npos ? carriage : newline;
  return end == std::string_view::npos ? end : end + 1;
}

}  // namespace

OutputChunk LinePrefixer::Feed(std::string_view bytes) {
  if (!whole_lines_) {
    return PassThrough(bytes);
  }
  OutputChunk chunk;
  chunk.continues = open_;
  while (true) {
    const size_t end = PieceEnd(bytes);
    if (end == std::string_view::npos) {
      break;
    }
    Append(bytes.substr(0, end), chunk);
    bytes.remove_prefix(end);
  }
  pending_ += bytes;
  if (pending_.size() > kLongestHeldLine) {
    AppendPartial(chunk);
  }
  chunk.ends_open = open_;
  chunk.bar = after_cr_;
  return chunk;
}

OutputChunk LinePrefixer::PassThrough(std::string_view bytes) {
  OutputChunk chunk{.bytes = std::string(bytes)};
  chunk.continues = open_;
  if (bytes.empty()) {
    return chunk;
  }
  chunk.lines = static_cast<size_t>(std::ranges::count(bytes, '\n'));
  const size_t newline = bytes.rfind('\n');
  const std::string_view last =
      newline == std::string_view::npos ? bytes : bytes.substr(newline + 1);
  after_cr_ =
      last.find('\r') != std::string_view::npos || (after_cr_ && newline == std::string_view::npos);
  open_ = newline == std::string_view::npos || !last.empty();
  chunk.ends_open = open_;
  chunk.bar = after_cr_;
  return chunk;
}

/// `piece` ends in its '\n' or '\r'.
void LinePrefixer::Append(std::string_view piece, OutputChunk& chunk) {
  const bool fresh = !open_ && pending_.empty();
  const char terminator = piece.back();
  // "\r\n" is one end of a line, and a lone '\r' before a bar is only a movement of the cursor.
  const bool movement = fresh && piece.size() == 1 && (terminator == '\r' || after_cr_);
  if (!open_ && !movement) {
    chunk.bytes += prefix_;
  }
  chunk.bytes += pending_;
  chunk.bytes += piece;
  pending_.clear();
  open_ = false;
  after_cr_ = terminator == '\r';
  chunk.lines += after_cr_ ? 0 : 1;
}

void LinePrefixer::AppendPartial(OutputChunk& chunk) {
  if (!open_) {
    chunk.bytes += prefix_;
  }
  chunk.bytes += pending_;
  pending_.clear();
  open_ = true;
}

OutputChunk LinePrefixer::FlushPartial() {
  OutputChunk chunk;
  if (pending_.empty()) {
    return chunk;
  }
  chunk.continues = open_;
  AppendPartial(chunk);
  chunk.ends_open = true;
  chunk.bar = after_cr_;
  return chunk;
}

std::string LineMerger::Merge(int source, std::string_view prefix, const OutputChunk& chunk) {
  constexpr std::string_view kClearLine = "\r\x1b[K";
  std::string text;
  if (chunk.empty()) {
    return text;
  }
  if (open_source_ != kNobody && open_source_ != source) {
    text += bar_ && terminal_ ? kClearLine : "\n";
    open_source_ = kNobody;
  }
  if (chunk.continues && open_source_ != source) {
    text += prefix;  // its line was closed for another stream
  }
  text += chunk.bytes;
  open_source_ = chunk.ends_open || chunk.bar ? source : kNobody;
  bar_ = chunk.bar;
  return text;
}

}  // namespace lr::launcher
