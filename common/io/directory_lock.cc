#include "common/io/directory_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

#include <climits>

#include "common/io/atomic_file.h"
#include "common/io/json.h"

namespace lr {
namespace {

constexpr char kLockName[] = "/.lr-lock";

std::string Describe(const LockOwner& owner) {
  return fmt::format("run {} (host {}, pid {})",
                     owner.run_id.empty() ? "without id" : owner.run_id,
                     owner.host,
                     owner.pid);
}

std::string Reason(int error) {
  return std::generic_category().message(error);
}

void WriteOwner(int fd, const LockOwner& owner) {
  const std::string text =
      Json({{"run_id", owner.run_id}, {"host", owner.host}, {"pid", owner.pid}}).dump() + "\n";
  // The content only helps the message of a refusal: a failure to write it must not fail the run.
  if (ftruncate(fd, 0) == 0) {
    (void)!pwrite(fd, text.data(), text.size(), 0);
  }
}

}  // namespace

LockOwner ThisProcess(const std::string& run_id) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  return {run_id, host.data(), getpid()};
}

Result<DirectoryLock> DirectoryLock::Acquire(const std::string& directory, const LockOwner& owner) {
  const std::string path = directory + kLockName;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return PermissionDenied("cannot open the lock '{}': {}", path, Reason(errno));
  }
  DirectoryLock lock(fd);
  // Exclusive marks a new owner; processes of the same run then share the lock.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    WriteOwner(fd, owner);
    flock(fd, LOCK_SH | LOCK_NB);
    return lock;
  }
  if (errno != EWOULDBLOCK) {
    return Unimplemented(
        "cannot lock '{}': {}; use a file system with locks for the output directory",
        path,
        Reason(errno));
  }
  const std::optional<LockOwner> holder = ReadLockOwner(directory);
  const bool same_run = holder && !owner.run_id.empty() && holder->run_id == owner.run_id;
  if (same_run && flock(fd, LOCK_SH | LOCK_NB) == 0) {
    return lock;
  }
  return FailedPrecondition(
      "'{}' is in use by {}; wait for it to end or choose another output directory",
      directory,
      holder ? Describe(*holder) : "another run");
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

std::optional<LockOwner> ReadLockOwner(const std::string& directory) {
  const Result<Json> json =
      ReadJsonFile(directory + kLockName, {.max_bytes = 4096, .max_depth = 4});
  if (!json.ok() || !json->is_object()) {
    return std::nullopt;
  }
  // Anybody may have written the file: what has another type counts as absent.
  const auto text = [&](const char* key) {
    const auto it = json->find(key);
    return it != json->end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto pid = json->find("pid");
  const bool has_pid = pid != json->end() && pid->is_number_integer();
  return LockOwner{text("run_id"), text("host"), has_pid ? pid->get<int64_t>() : 0};
}

}  // namespace lr
