#include "launcher/run_directory.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 128;
constexpr size_t kRandomDigits = 8;
constexpr size_t kLongestSocketFolder = 60;  // sun_path holds 108 bytes, names take up to 47

std::string ErrnoText() {
  return std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
}

std::string Value(const EnvironmentReader& environment, const std::string& name) {
  return environment(name).value_or("");
}

Result<std::string> StateRuns(const EnvironmentReader& environment) {
  const std::string state = Value(environment, "XDG_STATE_HOME");
  if (state.starts_with('/')) {
    return state + "/lr/runs";
  }
  const std::string home = Value(environment, "HOME");
  if (home.empty()) {
    return NotFound("neither XDG_STATE_HOME nor HOME is set");
  }
  return home + "/.local/state/lr/runs";
}

Status CreateParents(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return PermissionDenied("cannot create {}: {}", path, error.message());
  }
  return {};
}

/// True when it was made, false when the name is taken.
Result<bool> CreateNew(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) {
    return true;
  }
  if (errno == EEXIST) {
    return false;
  }
  return PermissionDenied("cannot create {}: {}", path, ErrnoText());
}

}  // namespace

std::string FolderName(const std::string& id) {
  std::string name = id.substr(0, kLongestName);
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain && c != '_' && c != '-' && c != '.') {
      c = '_';
    }
  }
  if (name.starts_with('.')) {
    name[0] = '_';
  }
  return name.empty() ? "run" : name;
}

Result<std::string> CreateRunDirectory(const std::string& log_dir,
                                       const std::string& run_id,
                                       const std::string& node_id,
                                       const EnvironmentReader& environment) {
  if (log_dir == "/dev/null") {
    return std::string();
  }
  std::string base = log_dir;
  if (base.empty()) {
    LR_ASSIGN(base, StateRuns(environment));
  }
  std::error_code error;
  base = fs::absolute(base, error).lexically_normal().string();
  LR_TRY(CreateParents(base));
  const std::string plain = fmt::format("{}/{}", base, FolderName(run_id));
  if (log_dir.empty()) {
    LR_ASSIGN(const bool made, CreateNew(plain));
    if (made) {
      return plain;
    }
  }
  const std::string path = fmt::format("{}_{}", plain, node_id.substr(0, kRandomDigits));
  LR_ASSIGN(const bool made, CreateNew(path));
  if (!made) {
    return AlreadyExists("{} exists already", path);
  }
  return path;
}

Result<std::string> CreateTemporaryLogDirectory(const std::string& run_id,
                                                const std::string& node_id,
                                                const EnvironmentReader& environment) {
  const std::string given = Value(environment, "TMPDIR");
  const std::string base = given.starts_with('/') ? given : "/tmp";
  std::string root = fmt::format("{}/torchelastic_{}XXXXXX", base, node_id.substr(0, 2));
  if (mkdtemp(root.data()) == nullptr) {
    return PermissionDenied("cannot create {}: {}", root, ErrnoText());
  }
  const std::string path =
      fmt::format("{}/{}_{}", root, FolderName(run_id), node_id.substr(0, kRandomDigits));
  LR_TRY(CreateNew(path).status());
  return path;
}

Result<std::string> CreateAttemptDirectory(const std::string& run_directory,
                                           int attempt,
                                           int local_size) {
  if (run_directory.empty()) {
    return std::string();
  }
  const std::string plain = fmt::format("{}/attempt_{}", run_directory, attempt);
  std::string folder = plain;
  LR_ASSIGN(bool made, CreateNew(folder));
  for (int again = 1; !made; ++again) {
    folder = fmt::format("{}.{}", plain, again);
    LR_ASSIGN(made, CreateNew(folder));
  }
  for (int local_rank = 0; local_rank < local_size; ++local_rank) {
    LR_TRY(CreateParents(fmt::format("{}/{}", folder, local_rank)));
  }
  return folder;
}

Result<std::string> CreateSocketDirectory(const EnvironmentReader& environment) {
  const std::string runtime = Value(environment, "XDG_RUNTIME_DIR");
  const bool usable = runtime.starts_with('/') && runtime.size() < kLongestSocketFolder &&
                      access(runtime.c_str(), W_OK | X_OK) == 0;
  const std::string path = usable ? runtime + "/lr" : fmt::format("/tmp/lr-{}", getuid());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return PermissionDenied("cannot create the socket folder {}: {}", path, ErrnoText());
  }

  struct stat info {};

  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied(
        "the socket folder {} is not a folder of ours that nobody else may write to; remove it or "
        "set XDG_RUNTIME_DIR",
        path);
  }
  return path;
}

}  // namespace lr::launcher
