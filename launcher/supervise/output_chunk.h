#pragma once
/// (pure) From the bytes of a worker's stream to pieces for the console: whole lines with the
/// worker's prefix, progress bars that end in a carriage return, partial lines (L-31, L-32). Bytes
/// are never interpreted or changed.

#include <cstddef>
#include <string>
#include <string_view>

namespace lr::launcher {

/// What goes to the console in one piece.
struct OutputChunk {
  std::string bytes;
  size_t lines = 0;
  bool continues =
      false;  ///< starts in the middle of a line that an earlier chunk of this stream left open
  bool ends_open = false;  ///< leaves its last line open
  bool bar = false;  ///< that line is a progress bar: it ended in, or follows, a carriage return

  bool empty() const { return bytes.empty(); }
};

/// Puts the prefix before every line and every update of a progress bar, and holds back the
/// unfinished last line.
class LinePrefixer {
 public:
  /// Without `whole_lines` bytes pass on at once and unchanged, and the prefix is not used.
  explicit LinePrefixer(std::string prefix, bool whole_lines = true)
      : prefix_(std::move(prefix)), whole_lines_(whole_lines) {}

  OutputChunk Feed(std::string_view bytes);

  bool has_partial() const { return !pending_.empty(); }

  /// The held back part of a line, after it waited long enough or the stream ended.
  OutputChunk FlushPartial();

 private:
  OutputChunk PassThrough(std::string_view bytes);
  void Append(std::string_view piece, OutputChunk& chunk);
  void AppendPartial(OutputChunk& chunk);

  std::string prefix_;
  bool whole_lines_;
  std::string pending_;
  bool open_ = false;      ///< the current line was emitted in part
  bool after_cr_ = false;  ///< the line before it ended in a carriage return
};

/// Merges the chunks of several streams into one console text: a line that one stream left open is
/// closed before another stream speaks, and a progress bar is cleared on a terminal. One per
/// console stream.
class LineMerger {
 public:
  explicit LineMerger(bool terminal) : terminal_(terminal) {}

  /// `source` tells the streams apart; `prefix` is that stream's.
  std::string Merge(int source, std::string_view prefix, const OutputChunk& chunk);

 private:
  static constexpr int kNobody = -1;

  bool terminal_;
  int open_source_ = kNobody;
  bool bar_ = false;
};

}  // namespace lr::launcher
