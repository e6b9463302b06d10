// Downloads by the installed curl: no HTTP client of our own, and the user's proxy settings apply.
// Blocking.
#include <cerrno>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/nn/file_digest.h"
#include "worker/nn/pretrained_weights.h"

extern char** environ;

namespace lr::worker {

namespace fs = std::filesystem;

namespace {

/// Runs `arguments` (found on PATH) with our standard streams; the exit status, or 128 + signal.
Result<int> RunCommand(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
      error != 0) {
    return Unavailable("cannot run '{}': {}",
                       arguments[0],
                       std::strerror(error));  // NOLINT(concurrency-mt-unsafe): glibc's is
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) {
      return Unavailable("lost '{}': {}",
                         arguments[0],
                         std::strerror(errno));  // NOLINT(concurrency-mt-unsafe): as above
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A file that goes away again unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {}

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  ~TemporaryFile() {
    std::error_code ignored;  // nothing to remove after a rename
    fs::remove(path_, ignored);
  }

  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

}  // namespace

Status FetchFile(const PretrainedFile& file, const fs::path& target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) {
    return Unavailable("cannot make '{}': {}", target.parent_path().string(), error.message());
  }
  const TemporaryFile part(target.string() + fmt::format(".{}.part", getpid()));
  LR_ASSIGN(const int code,
            RunCommand({"curl",
                        "--fail",
                        "--silent",
                        "--show-error",
                        "--location",
                        "--proto-redir",
                        "=https",
                        "--connect-timeout",
                        "20",
                        "--speed-limit",
                        "1000",
                        "--speed-time",
                        "60",
                        "--max-filesize",
                        "2000000000",
                        "--output",
                        part.path().string(),
                        "--",
                        file.url}));
  if (code != 0) {
    return Unavailable("curl could not fetch {} (exit code {})", file.url, code);
  }
  LR_ASSIGN(const std::string hash, Sha256OfFile(part.path()));
  if (!hash.starts_with(file.hash_prefix)) {
    return DataLoss("{} arrived with SHA-256 {}, which does not begin with {}",
                    file.url,
                    hash,
                    file.hash_prefix);
  }
  fs::rename(part.path(), target, error);
  if (error) {
    return Unavailable(
        "cannot rename '{}' to '{}': {}", part.path().string(), target.string(), error.message());
  }
  return {};
}

}  // namespace lr::worker
