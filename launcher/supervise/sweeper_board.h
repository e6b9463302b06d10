#pragma once
/// What launcher and sweepers tell each other: a page that they share from the fork on. Written by
/// the launcher (sessions, dismissal) and by the sweepers (who they are); read by all, without
/// locks, also after any of them was killed in the middle of a sentence.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <sys/types.h>

#include "common/base/status.h"

namespace lr::launcher {

class SweeperBoard {
 public:
  static Result<std::unique_ptr<SweeperBoard>> Create();

  SweeperBoard(const SweeperBoard&) = delete;
  SweeperBoard& operator=(const SweeperBoard&) = delete;
  ~SweeperBoard();

  /// The newest kSessions are kept: those of earlier attempts were empty before the next began.
  void AddSession(pid_t session, uint64_t start_time);

  /// Sessions of workers with the start time of their leader.
  std::map<pid_t, uint64_t> Sessions() const;

  /// `place`: 0 or 1.
  void SetSweeper(int place, pid_t pid);
  std::set<pid_t> Sweepers() const;

  void Dismiss();
  bool dismissed() const;

  static constexpr size_t kSessions = 1024;

 private:
  struct Session {
    std::atomic<pid_t> pid;
    std::atomic<uint64_t> start_time;
  };

  struct Page {
    std::array<std::atomic<pid_t>, 2> sweepers;
    std::atomic<bool> dismissed;
    std::atomic<uint64_t> session_count;  ///< ever added
    std::array<Session, kSessions> sessions;
  };

  explicit SweeperBoard(Page* page) : page_(page) {}

  Page* page_;
};

}  // namespace lr::launcher
