#include "worker/checkpoint/checkpoint_publisher.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <random>
#include <stdio.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/contract/checkpoint_scan.h"
#include "common/contract/fingerprint.h"
#include "common/io/atomic_file.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAbandonedKept = 2;
constexpr size_t kMarkDigits = 8;
constexpr uint64_t kSpaceMargin = uint64_t{16} << 20;

std::string RandomHex() {
  return fmt::format("{:08x}", std::random_device()());
}

Status Rename(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    return FileError("rename", from, errno).WithContext("to '{}'", to.string());
  }
  return {};
}

/// False when the file system cannot exchange names.
Result<bool> Exchange(const fs::path& a, const fs::path& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
    return true;
  }
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
    return false;
  }
  return FileError("exchange", a, errno).WithContext("with '{}'", b.string());
}

bool LinksUnsupported(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

/// Tells the temporary directories of one run from another's, from their names alone: a kill right
/// after one was made must not leave it without an owner.
std::string MarkOfRun(const std::string& run_id) {
  return run_id.empty() ? "" : Fingerprint(run_id).substr(0, kMarkDigits);
}

double Megabytes(uint64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

}  // namespace

CheckpointPublisher::CheckpointPublisher(fs::path output_dir,
                                         const std::string& run_id,
                                         FaultPoint fault_point)
    : checkpoints_(std::move(output_dir) / kCheckpointsFolder),
      run_mark_(MarkOfRun(run_id)),
      fault_point_(std::move(fault_point)) {}

Status CheckpointPublisher::CheckLast() const {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(checkpoints_ / kLastName, error);
  if (!fs::exists(status) || fs::is_symlink(status) || fs::is_regular_file(status)) {
    return {};
  }
  return FailedPrecondition(
      "'{}' is neither a link nor a text file and cannot be switched; move it away",
      (checkpoints_ / kLastName).string());
}

Status CheckpointPublisher::CheckSpace(uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(checkpoints_, error);
  if (error || space.available >= bytes + kSpaceMargin) {
    return {};  // unknown is not full: the write itself will tell
  }
  return ResourceExhausted("'{}' has {:.1f} MB free, the checkpoint needs {:.1f} MB",
                           checkpoints_.string(),
                           Megabytes(space.available),
                           Megabytes(bytes + kSpaceMargin));
}

Result<std::string> CheckpointPublisher::CreateTemporary(const std::string& step_name,
                                                         uint64_t bytes) {
  LR_TRY(Reach(fault_point_, "create temporary"));
  std::error_code error;
  fs::create_directories(checkpoints_, error);
  if (error) {
    return FileError("create", checkpoints_, error.value());
  }
  LR_TRY(CheckLast());
  LR_TRY(CheckSpace(bytes));
  const std::string name = TemporaryName(step_name, getpid(), run_mark_ + RandomHex());
  fs::create_directory(checkpoints_ / name, error);
  if (error) {
    return FileError("create", checkpoints_ / name, error.value());
  }
  created_.insert(name);
  return name;
}

Status CheckpointPublisher::Flush() {
  LR_TRY(Reach(fault_point_, "flush checkpoints"));
  return FsyncDirectory(checkpoints_.string());
}

Status CheckpointPublisher::TakeName(const std::string& temporary,
                                     const std::string& step_name,
                                     Displaced displaced,
                                     const std::string& aside) {
  LR_TRY(Reach(fault_point_, "take name"));
  const fs::path from = PathOf(temporary);
  const fs::path to = PathOf(step_name);
  if (displaced == Displaced::kNothing) {
    return Rename(from, to);
  }
  LR_ASSIGN(const bool exchanged, Exchange(from, to));
  if (exchanged) {
    return {};  // the old directory now has the temporary name
  }
  LR_TRY(Rename(to, PathOf(aside)));
  if (const Status renamed = Rename(from, to); !renamed.ok()) {
    LR_TRY(Rename(PathOf(aside), to));
    return renamed;
  }
  return Rename(PathOf(aside), from);
}

Status CheckpointPublisher::SwitchLast(const std::string& step_name) {
  LR_TRY(Reach(fault_point_, "switch last"));
  const fs::path last = checkpoints_ / kLastName;
  const fs::path temporary =
      checkpoints_ / fmt::format("{}.tmp-{}-{}", kLastName, getpid(), RandomHex());
  if (symlink(step_name.c_str(), temporary.c_str()) != 0) {
    if (!LinksUnsupported(errno)) {
      return FileError("create", temporary, errno);
    }
    return WriteFileAtomic(last.string(), step_name + "\n");
  }
  LR_TRY(Reach(fault_point_, "rename last"));
  if (const Status renamed = Rename(temporary, last); !renamed.ok()) {
    unlink(temporary.c_str());
    return renamed;
  }
  return {};
}

CheckpointPublisher::Displaced CheckpointPublisher::WhatStandsAt(
    const std::string& step_name) const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(PathOf(step_name), error))) {
    return Displaced::kNothing;
  }
  const Result<CheckpointListing> listing = ListCheckpointFiles(PathOf(step_name));
  return listing.ok() && JudgeCheckpoint(*listing).complete ? Displaced::kComplete
                                                            : Displaced::kUnfinished;
}

/// Points `last` to what it named before, if it names `step_name` by now.
Status CheckpointPublisher::RestoreLast(const std::string& step_name,
                                        const Result<std::string>& previous) {
  const Result<std::string> now = ReadLast(checkpoints_);
  if (!now.ok() || *now != step_name || (previous.ok() && *previous == step_name)) {
    return {};
  }
  if (previous.ok()) {
    return SwitchLast(*previous);
  }
  const fs::path last = checkpoints_ / kLastName;
  return unlink(last.c_str()) == 0 ? Status() : FileError("remove", last, errno);
}

Result<std::vector<std::string>> CheckpointPublisher::Publish(const std::string& temporary,
                                                              const std::string& step_name) {
  const Displaced displaced = WhatStandsAt(step_name);
  const Result<std::string> previous = ReadLast(checkpoints_);
  const std::string aside = AsideName(step_name, getpid(), RandomHex());
  LR_TRY(TakeName(temporary, step_name, displaced, aside));
  Status status = Flush();
  if (status.ok()) {
    status = SwitchLast(step_name);
  }
  if (status.ok()) {
    status = Flush();
  }
  if (!status.ok()) {  // withdraw: nobody was told yet
    Status back = RestoreLast(step_name, previous);
    if (back.ok()) {  // else `last` names the directory, which is complete: it stays
      back = displaced == Displaced::kNothing ? Rename(PathOf(step_name), PathOf(temporary))
                                              : TakeName(temporary, step_name, displaced, aside);
    }
    return back.ok() ? status
                     : status.WithContext("and the directory could not be withdrawn ({})",
                                          back.message());
  }
  created_.erase(temporary);
  return SettleDisplaced(temporary, step_name, displaced, aside);
}

std::vector<std::string> CheckpointPublisher::SettleDisplaced(const std::string& temporary,
                                                              const std::string& step_name,
                                                              Displaced displaced,
                                                              const std::string& aside) {
  if (displaced == Displaced::kNothing) {
    return {};
  }
  const bool complete = displaced == Displaced::kComplete;
  const std::string target = complete ? DoomedName(step_name, getpid(), RandomHex()) : aside;
  const Status renamed = Rename(PathOf(temporary), PathOf(target));
  std::vector<std::string> notes = {
      complete ? fmt::format("checkpoint {} was saved again and replaced", step_name)
               : fmt::format(
                     "an unfinished directory {} was in the way and is now {}", step_name, aside)};
  if (!renamed.ok()) {
    notes.push_back(renamed.message());
  }
  return notes;
}

bool CheckpointPublisher::IsOurs(const std::string& temporary) const {
  if (created_.contains(temporary)) {
    return true;
  }
  return !run_mark_.empty() && temporary.substr(temporary.rfind('-') + 1).starts_with(run_mark_);
}

std::vector<fs::path> CheckpointPublisher::OwnTemporaries() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(checkpoints_, error);
       !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code entry_error;
    const std::string name = it->path().filename().string();
    if (IsTemporaryName(name) && IsOurs(name) && it->is_directory(entry_error)) {
      found.emplace_back(fs::last_write_time(it->path(), entry_error), it->path());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> oldest_first;
  for (auto& [time, path] : found) {
    oldest_first.push_back(std::move(path));
  }
  return oldest_first;
}

void CheckpointPublisher::Remove(const fs::path& path, std::vector<std::string>& lines) const {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    lines.push_back(fmt::format("cannot remove '{}': {}", path.string(), error.message()));
  }
}

std::vector<std::string> CheckpointPublisher::Cleanup(int64_t keep) {
  std::vector<std::string> lines;
  for (const fs::path& temporary : OwnTemporaries()) {
    lines.push_back(
        fmt::format("removing {} of an earlier save that failed", temporary.filename().string()));
    Remove(temporary, lines);
  }
  const fs::path output_dir = checkpoints_.parent_path();
  const Result<std::vector<CheckpointCandidate>> candidates = ListCheckpoints(output_dir);
  if (!candidates.ok()) {
    lines.push_back(candidates.status().message());
    return lines;
  }
  for (const std::string& name : CheckpointsToRemove(*candidates, keep)) {
    // Renamed first: a kill in the middle leaves no step directory with half its files.
    const Status renamed = Rename(PathOf(name), PathOf(DoomedName(name, getpid(), RandomHex())));
    lines.push_back(renamed.ok()
                        ? fmt::format("removing checkpoint {} (keep_checkpoints={})", name, keep)
                        : renamed.message());
  }
  std::error_code error;
  std::vector<fs::path> doomed;
  for (auto it = fs::directory_iterator(checkpoints_, error);
       !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (IsDoomedName(name) || name.starts_with(fmt::format("{}.tmp-", kLastName))) {
      doomed.push_back(it->path());
    }
  }
  for (const fs::path& path : doomed) {
    Remove(path, lines);
  }
  return lines;
}

void CheckpointPublisher::TrimAbandoned() {
  std::vector<fs::path> temporaries = OwnTemporaries();
  std::vector<std::string> ignored;
  for (size_t i = 0; i + kAbandonedKept < temporaries.size(); ++i) {
    Remove(temporaries[i], ignored);
  }
}

}  // namespace lr::worker
