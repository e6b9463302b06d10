#include "launcher/supervise/console.h"

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "common/base/blocked_signals.h"

namespace lr::launcher {
namespace {

constexpr size_t kLimitPerSource = 4 * 1024 * 1024;
constexpr size_t kWriteBytes = 64 * 1024;

bool SameFile(int a, int b) {
  struct stat first {};

  struct stat second {};

  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

/// Writes everything; false when the reader is gone.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // somebody made our console non-blocking
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

/// One descriptor, one queue, one thread. Kept alive by the thread itself, so that a stuck write
/// can be left behind.
class ConsoleWriter : public std::enable_shared_from_this<ConsoleWriter> {
 public:
  explicit ConsoleWriter(int fd) : fd_(fd), merger_(isatty(fd) == 1) {}

  void AddSource(int source, const std::string& prefix) {
    const std::lock_guard lock(mutex_);
    sources_[source].prefix = prefix;
  }

  void Write(int source, OutputChunk chunk) {
    if (chunk.empty()) {
      return;
    }
    const std::lock_guard lock(mutex_);
    if (broken_) {
      return;
    }
    if (!started_) {  // most runs of a silent program never need the thread
      started_ = true;
      StartThread();
    }
    Source& from = sources_[source];
    from.pending += chunk.bytes.size();
    queue_.push_back({source, std::move(chunk)});
    if (from.pending > kLimitPerSource) {
      DropOldest(source, from);
    }
    work_.notify_one();
  }

  bool Flush(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return idle_.wait_for(lock, limit, [this] { return broken_ || (queue_.empty() && !writing_); });
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_one();
  }

 private:
  struct Source {
    std::string prefix;
    size_t pending = 0;  ///< bytes in the queue
    size_t dropped = 0;  ///< lines since the last notice
  };

  struct Item {
    int source;
    OutputChunk chunk;
  };

  /// The thread takes no signals: they are the loop's.
  void StartThread() {
    const BlockedSignals blocked;
    std::thread([self = shared_from_this()] { self->Run(); }).detach();
  }

  /// Half of the source's backlog goes at once, so that the search is rare.
  void DropOldest(int source, Source& from) {
    for (auto item = queue_.begin(); item != queue_.end() && from.pending > kLimitPerSource / 2;) {
      if (item->source != source) {
        ++item;
        continue;
      }
      from.pending -= item->chunk.bytes.size();
      from.dropped += item->chunk.lines;
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
      const std::string text = TakeText();
      writing_ = true;
      lock.unlock();
      const bool written = WriteAll(fd_, text);
      lock.lock();
      writing_ = false;
      if (!written) {
        broken_ = true;
        queue_.clear();
      }
      if (queue_.empty()) {
        idle_.notify_all();
      }
    }
  }

  std::string TakeText() {
    std::string text;
    while (!queue_.empty() && text.size() < kWriteBytes) {
      Item item = std::move(queue_.front());
      queue_.pop_front();
      Source& from = sources_[item.source];
      from.pending -= item.chunk.bytes.size();
      if (from.dropped > 0) {
        text += merger_.Merge(item.source, from.prefix, DropNotice(from));
        from.dropped = 0;
      }
      text += merger_.Merge(item.source, from.prefix, item.chunk);
    }
    return text;
  }

  static OutputChunk DropNotice(const Source& from) {
    return {.bytes = fmt::format(
                "{}lr-launch: {} lines dropped here: the console is slower than the worker\n",
                from.prefix,
                from.dropped),
            .lines = 1};
  }

  const int fd_;
  std::mutex mutex_;  // guards everything below; never held while writing
  std::condition_variable work_;
  std::condition_variable idle_;
  std::deque<Item> queue_;
  std::map<int, Source> sources_;
  LineMerger merger_;
  bool started_ = false;
  bool writing_ = false;
  bool stopping_ = false;
  bool broken_ = false;
};

Console::Console(int out_fd, int err_fd) : err_(std::make_shared<ConsoleWriter>(err_fd)) {
  out_ = SameFile(out_fd, err_fd) ? err_ : std::make_shared<ConsoleWriter>(out_fd);
  AddSource(ConsoleStream::kErr, "");  // number 0: our own lines
}

Console::~Console() {
  Flush(std::chrono::milliseconds(100));
  out_->Stop();
  err_->Stop();
}

ConsoleWriter& Console::writer(ConsoleStream stream) {
  return stream == ConsoleStream::kOut ? *out_ : *err_;
}

int Console::AddSource(ConsoleStream stream, const std::string& prefix) {
  const int source = next_source_++;
  writer(stream).AddSource(source, prefix);
  return source;
}

void Console::Write(ConsoleStream stream, int source, OutputChunk chunk) {
  writer(stream).Write(source, std::move(chunk));
}

void Console::Say(std::string_view text) {
  Write(ConsoleStream::kErr, 0, {.bytes = std::string(text), .lines = 1});
}

bool Console::Flush(std::chrono::milliseconds limit) {
  const auto start = std::chrono::steady_clock::now();
  const bool out = out_->Flush(limit);
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  return err_->Flush(limit - std::min(limit, spent)) && out;
}

}  // namespace lr::launcher
