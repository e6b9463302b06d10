#include "launcher/supervise/sweeper_board.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace lr::launcher {

static_assert(std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

Result<std::unique_ptr<SweeperBoard>> SweeperBoard::Create() {
  void* memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted("cannot share a page with the sweeper: {}",
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  return std::unique_ptr<SweeperBoard>(new SweeperBoard(new (memory) Page));
}

SweeperBoard::~SweeperBoard() {
  munmap(page_, sizeof(Page));
}

void SweeperBoard::AddSession(pid_t session, uint64_t start_time) {
  const uint64_t count = page_->session_count.load();
  Session& place = page_->sessions[count % kSessions];
  place.pid.store(session);
  place.start_time.store(start_time);
  page_->session_count.store(count + 1);
}

std::map<pid_t, uint64_t> SweeperBoard::Sessions() const {
  std::map<pid_t, uint64_t> sessions;
  const size_t kept = std::min<uint64_t>(page_->session_count.load(), kSessions);
  for (size_t i = 0; i < kept; ++i) {
    sessions[page_->sessions[i].pid.load()] = page_->sessions[i].start_time.load();
  }
  return sessions;
}

void SweeperBoard::SetSweeper(int place, pid_t pid) {
  page_->sweepers[static_cast<size_t>(place)].store(pid);
}

std::set<pid_t> SweeperBoard::Sweepers() const {
  std::set<pid_t> pids;
  for (const std::atomic<pid_t>& pid : page_->sweepers) {
    pids.insert(pid.load());
  }
  pids.erase(0);
  return pids;
}

void SweeperBoard::Dismiss() {
  page_->dismissed.store(true);
}

bool SweeperBoard::dismissed() const {
  return page_->dismissed.load();
}

}  // namespace lr::launcher
