// See the header.
#include "tools/lr_convert_dcp/byte_progress.h"

#include <chrono>
#include <cstdio>
#include <memory>

#include "common/log/progress_bar.h"

namespace lr {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMegabyte = 1'000'000;
constexpr std::chrono::seconds kBetweenLines{10};

class ByteProgress {
 public:
  ByteProgress(std::string_view title, uint64_t total)
      : title_(title),
        total_(total),
        is_bar_(ProgressBarWanted()),
        bar_(static_cast<int64_t>(total / kMegabyte), is_bar_, {title_, "MB"}) {
    if (!is_bar_) {
      Line();
    }
  }

  void Add(uint64_t bytes) {
    const uint64_t before = done_ / kMegabyte;
    done_ += bytes;
    bar_.Advance(static_cast<int64_t>(done_ / kMegabyte - before));
    if (!is_bar_ && Clock::now() - last_line_ >= kBetweenLines) {
      Line();
    }
  }

 private:
  void Line() {
    fmt::print(stderr, "{}: {} of {} MB\n", title_, done_ / kMegabyte, total_ / kMegabyte);
    last_line_ = Clock::now();
  }

  std::string title_;
  uint64_t total_;
  uint64_t done_ = 0;
  bool is_bar_;
  ProgressBar bar_;
  Clock::time_point last_line_;
};

}  // namespace

StartProgress ShowProgress(bool is_quiet) {
  return [is_quiet](std::string_view title, uint64_t total) -> ByteSink {
    if (is_quiet) {
      return [](uint64_t) {};
    }
    auto progress = std::make_shared<ByteProgress>(title, total);
    return [progress](uint64_t bytes) { progress->Add(bytes); };
  };
}

}  // namespace lr
