#include "launcher/supervise/log_writer.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/blocked_signals.h"

namespace lr::launcher {
namespace {

constexpr size_t kHoldBytes = 1024 * 1024;
constexpr size_t kLimitBytes = 4 * 1024 * 1024;
constexpr std::chrono::seconds kLeaveWait{5};

}  // namespace

/// Kept alive by the thread itself, so that a stuck write can be left behind.
class LogWriter::State : public std::enable_shared_from_this<LogWriter::State> {
 public:
  State(RotationLimits limits, std::function<void(const std::string&)> warn)
      : limits_(limits), warn_(std::move(warn)) {}

  int Open(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto [known, added] = numbers_.try_emplace(path, static_cast<int>(numbers_.size()));
    if (added && !off_) {
      backlogs_.try_emplace(known->second);
      Enqueue({.file = known->second, .path = path, .bytes = ""});
    }
    return known->second;
  }

  void Write(int file, std::string bytes) {
    const std::lock_guard lock(mutex_);
    if (off_ || bytes.empty()) {
      return;
    }
    Backlog& backlog = backlogs_[file];
    backlog.bytes += bytes.size();
    Enqueue({.file = file, .path = "", .bytes = std::move(bytes)});
    if (backlog.bytes > kLimitBytes) {
      DropOldest(file, backlog);
    }
  }

  bool Hold(int file, std::function<void()> resume) {
    const std::lock_guard lock(mutex_);
    Backlog& backlog = backlogs_[file];
    if (off_ || backlog.bytes < kHoldBytes) {
      return false;
    }
    backlog.resume.push_back(std::move(resume));
    return true;
  }

  bool Flush(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    while (!idle()) {
      const uint64_t before = written_;
      progress_.wait_for(lock, limit, [&] { return idle() || written_ != before; });
      if (!idle() && written_ == before) {
        return false;
      }
    }
    return true;
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;  // from here on nobody outside is called
    for (auto& [file, backlog] : backlogs_) {
      backlog.resume.clear();
    }
    work_.notify_one();
  }

 private:
  /// Opens `path` when it is set, else appends `bytes`.
  struct Item {
    int file = 0;
    std::string path;
    std::string bytes;
  };

  struct Backlog {
    size_t bytes = 0;    ///< in the queue
    size_t dropped = 0;  ///< lines since the last notice
    std::vector<std::function<void()>> resume;
  };

  bool idle() const { return off_ || (queue_.empty() && !writing_); }

  void Enqueue(Item item) {
    queue_.push_back(std::move(item));
    if (!started_) {
      started_ = true;
      StartThread();
    }
    work_.notify_one();
  }

  /// The thread takes no signals: they are the loop's.
  void StartThread() {
    const BlockedSignals blocked;
    std::thread([self = shared_from_this()] { self->Run(); }).detach();
  }

  /// Half of the backlog goes at once, so that the search is rare.
  void DropOldest(int file, Backlog& backlog) {
    for (auto item = queue_.begin(); item != queue_.end() && backlog.bytes > kLimitBytes / 2;) {
      if (item->file != file || !item->path.empty()) {
        ++item;
        continue;
      }
      backlog.bytes -= item->bytes.size();
      backlog.dropped += static_cast<size_t>(std::ranges::count(item->bytes, '\n'));
      item = queue_.erase(item);
    }
  }

  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      Item item = std::move(queue_.front());
      queue_.pop_front();
      const size_t dropped = item.path.empty() ? std::exchange(backlogs_[item.file].dropped, 0) : 0;
      writing_ = true;
      lock.unlock();
      const Status done = Execute(item, dropped);
      lock.lock();
      writing_ = false;
      ++written_;
      Backlog& backlog = backlogs_[item.file];
      backlog.bytes -= item.bytes.size();
      if (!done.ok()) {
        TurnOff(done);
      } else if (backlog.bytes < kHoldBytes / 2) {
        Resume(backlog);
      }
      progress_.notify_all();
    }
  }

  Status Execute(const Item& item, size_t dropped) {
    if (!item.path.empty()) {
      return files_.try_emplace(item.file, item.path, limits_).first->second.Open();
    }
    LogFile& file = files_.at(item.file);
    if (dropped > 0) {
      LR_TRY(file.Append(fmt::format("{}lr-launch: {} lines dropped here: the disk stood still\n",
                                     file.ends_in_line() ? "\n" : "",
                                     dropped)));
    }
    return file.Append(item.bytes);
  }

  void TurnOff(const Status& why) {
    off_ = true;
    queue_.clear();
    for (auto& [file, backlog] : backlogs_) {
      backlog.bytes = 0;
      Resume(backlog);
    }
    if (!stopping_) {
      warn_(fmt::format("log files end here, the run goes on without them: {}", why.message()));
    }
  }

  /// The handlers only post to a loop.
  static void Resume(Backlog& backlog) {
    for (const auto& resume : std::exchange(backlog.resume, {})) {
      resume();
    }
  }

  const RotationLimits limits_;
  const std::function<void(const std::string&)> warn_;
  std::map<int, LogFile> files_;  // of the thread alone
  std::mutex mutex_;              // guards everything below; never held while writing
  std::condition_variable work_;
  std::condition_variable progress_;
  std::deque<Item> queue_;
  std::map<std::string, int> numbers_;
  std::map<int, Backlog> backlogs_;
  uint64_t written_ = 0;  ///< items that were executed
  bool started_ = false;
  bool writing_ = false;
  bool stopping_ = false;
  bool off_ = false;
};

LogWriter::LogWriter(RotationLimits limits, std::function<void(const std::string&)> warn)
    : state_(std::make_shared<State>(limits, std::move(warn))) {}

LogWriter::~LogWriter() {
  Flush(kLeaveWait);
  state_->Stop();
}

int LogWriter::Open(const std::string& path) {
  return state_->Open(path);
}

void LogWriter::Write(int file, std::string bytes) {
  state_->Write(file, std::move(bytes));
}

bool LogWriter::Hold(int file, std::function<void()> resume) {
  return state_->Hold(file, std::move(resume));
}

bool LogWriter::Flush(std::chrono::milliseconds limit) {
  return state_->Flush(limit);
}

}  // namespace lr::launcher
