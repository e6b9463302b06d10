#include "common/log/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace lr {

namespace {

std::string Clock(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{:02}:{:02}", minutes, whole % 60);
}

/// `width` cells, the last one in eighths.
std::string Cells(double fraction, int width) {
  static const char* const kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(fraction * width * 8);
  std::string cells;
  for (int i = 0; i < eighths / 8; ++i) {
    cells += "█";
  }
  int used = eighths / 8;
  if (eighths % 8 != 0) {
    cells += kEighths[eighths % 8];
    ++used;
  }
  return cells + std::string(static_cast<size_t>(std::max(0, width - used)), ' ');
}

int TerminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string ProgressText(int64_t done,
                         int64_t total,
                         std::chrono::duration<double> elapsed,
                         int columns,
                         const ProgressWords& words) {
  const double fraction = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0.0;
  const double rate = elapsed.count() > 0 ? static_cast<double>(done) / elapsed.count() : 0.0;
  const std::string left =
      done > 0 && rate > 0 ? Clock(static_cast<double>(total - done) / rate) : "?";
  const std::string& unit = words.unit;
  const std::string speed = rate <= 0    ? fmt::format("?{}/s", unit)
                            : rate < 1.0 ? fmt::format("{:5.2f}s/{}", 1.0 / rate, unit)
                                         : fmt::format("{:5.2f}{}/s", rate, unit);
  const std::string head = fmt::format("{}: {:3.0f}%|", words.title, std::floor(100.0 * fraction));
  const std::string tail =
      fmt::format("| {}/{} [{}<{}, {}]", done, total, Clock(elapsed.count()), left, speed);
  const int room = columns - 1 - static_cast<int>(head.size() + tail.size());
  return head + Cells(fraction, std::clamp(room, 1, 60)) + tail;
}

ProgressBar::ProgressBar(int64_t total, bool enabled, ProgressWords words)
    : total_(total), enabled_(enabled), words_(std::move(words)) {}

ProgressBar::~ProgressBar() {
  if (enabled_ && done_ > 0) {
    Draw();
    std::fputc('\n', stderr);
  }
}

void ProgressBar::Advance(int64_t by) {
  done_ += by;
  const auto now = std::chrono::steady_clock::now();
  if (enabled_ && (!visible_ || now - last_draw_ >= std::chrono::milliseconds(100))) {
    Draw();
  }
}

void ProgressBar::Hide() {
  if (visible_) {
    std::fputs("\r\033[K", stderr);
    visible_ = false;
  }
}

void ProgressBar::Draw() {
  const auto now = std::chrono::steady_clock::now();
  std::fputs(fmt::format("\r{}\033[K",
                         ProgressText(done_, total_, now - start_, TerminalColumns(), words_))
                 .c_str(),
             stderr);
  std::fflush(stderr);
  visible_ = true;
  last_draw_ = now;
}

bool ProgressBarWanted() {
  return isatty(STDERR_FILENO) == 1 &&
         std::getenv("SLURM_JOB_ID") == nullptr;  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace lr
