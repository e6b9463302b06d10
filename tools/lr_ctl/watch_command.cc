#include "tools/lr_ctl/watch_command.h"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tools/lr_ctl/run_query.h"
#include "tools/lr_ctl/run_tables.h"
#include "tools/lr_ctl/watch_screen.h"

namespace lr {
namespace {

constexpr int kExitLost = 1;
constexpr std::chrono::seconds kAnswerLimit{2};  // Ctrl-C waits that long at most

/// Blocked from here on, in this thread and those it starts: never in the middle of a drawing.
sigset_t BlockInterrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// The signal that came within `limit`; 0 for none.
int WaitForInterrupt(const sigset_t& signals, std::chrono::milliseconds limit) {
  timespec wait{};
  wait.tv_sec = limit.count() / 1000;
  wait.tv_nsec = limit.count() % 1000 * 1'000'000;
  const int signal = sigtimedwait(&signals, nullptr, &wait);
  return signal > 0 ? signal : 0;
}

ScreenSize CurrentScreen() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.columns = size.ws_col, .rows = size.ws_row};
}

/// Remembers what it showed last.
class Display {
 public:
  void Show(const RunView& view) {
    if (terminal_) {
      const std::string note = view.trouble.empty() ? "" : "\n" + view.trouble;
      const std::string now = FitToScreen(RunDetail(view.record) + note, CurrentScreen());
      fmt::print("{}", Redraw(shown_, now));
      shown_ = now;
    } else if (const std::string now = StatusLine(view.record); now != shown_) {
      fmt::print("{}\n", now);
      shown_ = now;
    }
    static_cast<void>(std::fflush(stdout));
    if (!terminal_ && view.trouble != trouble_) {
      trouble_ = view.trouble;
      fmt::print(stderr, "{}", trouble_.empty() ? "" : fmt::format("lr-ctl: {}\n", trouble_));
    }
  }

 private:
  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  std::string shown_;
  std::string trouble_;
};

}  // namespace

int WatchRun(FoundRun run, std::chrono::milliseconds interval) {
  const sigset_t signals = BlockInterrupts();
  Display display;
  while (true) {
    const RunView view = QueryRun(run, kAnswerLimit);
    display.Show(view);
    if (run.ended()) {
      return run.record.value("exit_code", kExitLost);
    }
    if (const int signal = WaitForInterrupt(signals, interval); signal != 0) {
      return 128 + signal;
    }
    if (Result<FoundRun> now = ReadRun(run.directory); now.ok()) {
      run = std::move(now).value();
    }
  }
}

}  // namespace lr
