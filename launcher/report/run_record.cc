#include "launcher/report/run_record.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/chrono.h>

#include "common/base/blocked_signals.h"
#include "common/io/atomic_file.h"

namespace lr::launcher {

namespace {

/// "2026-03-02T10:11:12.345Z"
std::string UtcNow() {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     millis);
}

class FileRecord final : public RunRecord {
 public:
  explicit FileRecord(Options options) : options_(std::move(options)) {
    const BlockedSignals blocked;  // they are the event loop's
    thread_ = std::thread([this] { Run(); });
  }

  ~FileRecord() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Set(const Json& fields) override {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, value] : fields.items()) {
        record_[key] = value;
      }
      ++wanted_;
    }
    changed_.notify_all();
  }

  void Event(const std::string& event, const Json& fields) override {
    Json line = {{"time", UtcNow()}, {"event", event}};
    line.update(fields);
    {
      const std::lock_guard lock(mutex_);
      events_ += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
      ++wanted_;
    }
    changed_.notify_all();
  }

  void Attach(const std::string& name, const std::string& text) override {
    {
      const std::lock_guard lock(mutex_);
      files_.emplace_back(name, text);
      ++wanted_;
    }
    changed_.notify_all();
  }

  Json Snapshot() const override {
    const std::lock_guard lock(mutex_);
    return record_;
  }

  void Flush() override {
    std::unique_lock lock(mutex_);
    const int64_t target = wanted_;
    written_changed_.wait(lock, [&] { return written_ >= target; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || written_ < wanted_; });
      if (written_ == wanted_) {
        return;
      }
      const int64_t target = wanted_;
      const std::string record = record_.dump(1, ' ', false, Json::error_handler_t::replace);
      const std::string events = std::move(events_);
      events_.clear();
      const auto files = std::exchange(files_, {});
      lock.unlock();
      WriteFiles(files);
      Write(record, events);
      lock.lock();
      written_ = target;
      written_changed_.notify_all();
    }
  }

  void Write(const std::string& record, const std::string& events) {
    if (!events.empty()) {
      WriteEvents(events);
    }
    if (!options_.directory.empty() && record != last_record_) {
      Warn(WriteFileAtomic(
          options_.directory + "/run.json", record + "\n", 0644, Durability::kQuick));
      last_record_ = record;
    }
  }

  void WriteFiles(const std::vector<std::pair<std::string, std::string>>& files) {
    for (const auto& [name, text] : files) {
      if (options_.directory.empty()) {
        return;
      }
      const std::filesystem::path path = std::filesystem::path(options_.directory) / name;
      std::error_code error;  // told by the write
      std::filesystem::create_directories(path.parent_path(), error);
      Warn(WriteFileAtomic(path.string(), text, 0644, Durability::kQuick));
    }
  }

  void WriteEvents(const std::string& events) {
    if (!options_.directory.empty()) {
      Warn(Append(options_.directory + "/events.jsonl", events));
    }
    if (!options_.events_copy.empty()) {
      Warn(Append(options_.events_copy, events));
    }
    if (options_.events_said) {
      options_.events_said(events);
    }
  }

  static Status Append(const std::string& path, const std::string& text) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const bool complete =
        fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const int error = errno;
    if (fd >= 0) {
      close(fd);
    }
    return complete
               ? Status()
               : Unavailable(
                     "cannot append to '{}': {}", path, std::generic_category().message(error));
  }

  void Warn(const Status& status) {
    if (!status.ok() && !warned_ && options_.warn) {
      warned_ = true;
      options_.warn(status.message());
    }
  }

  const Options options_;
  std::string last_record_;  // writing thread only, as the next
  bool warned_ = false;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::condition_variable written_changed_;
  Json record_ = Json::object();
  std::string events_;
  std::vector<std::pair<std::string, std::string>> files_;
  int64_t wanted_ = 0;
  int64_t written_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<RunRecord>> RunRecord::Create(Options options) {
  if (!options.directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.directory, error);
    if (error) {
      return PermissionDenied(
          "cannot create the run directory '{}': {}", options.directory, error.message());
    }
  }
  return std::unique_ptr<RunRecord>(std::make_unique<FileRecord>(std::move(options)));
}

}  // namespace lr::launcher
