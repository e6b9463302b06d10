#pragma once
/// Saves checkpoints: background writing by the main rank, agreement of all ranks, publication by
/// one rename (launcher_and_service.md 5.3, checkpoints.md 7).
///
///   Begin(snapshot)    step thread, all ranks: rank 0 chooses `<step>.tmp-<pid>-<random>`, all
///                      agree to start
///   in the background  writer thread of rank 0: the files in LeRobot's order, each flushed, the
///                      manifest last
///   Poll(), Finish()   step thread, all ranks: all agree that the write succeeded; rank 0 renames
///                      the directory into place, flushes the parent and switches `last`; all agree
///                      on that too
///   afterwards         cleaning thread of rank 0: retention, leftovers of this run
///
/// A kill at any instant leaves the previous `last` valid. A failed save leaves `last` and all
/// published directories untouched and its temporary directory for inspection; at most two such are
/// kept, and the next successful save of the same run removes them.
///
/// Thread: the step thread, on all ranks in the same order. One save at a time.

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/checkpoint/checkpoint_contents.h"
#include "worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/checkpoint_publisher.h"

namespace lr::worker {

/// The ranks that save together. After a failure of one of its calls the group is dead (style.md
/// 5).
class CheckpointGroup {
 public:
  virtual ~CheckpointGroup() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Rank 0's text on every rank.
  virtual Result<std::string> BroadcastFromMain(std::string text) = 0;

  /// Ok when every rank is; else the first failed rank's status, the same on all ranks.
  virtual Status AgreeAll(const Status& mine) = 0;
};

/// One process.
class SingleProcessGroup final : public CheckpointGroup {
 public:
  int rank() const override { return 0; }

  int world_size() const override { return 1; }

  Result<std::string> BroadcastFromMain(std::string text) override { return text; }

  Status AgreeAll(const Status& mine) override { return mine; }
};

struct CheckpointWriterOptions {
  std::filesystem::path output_dir;
  std::string run_id;            ///< empty: no leftovers of earlier processes are removed
  int64_t keep_checkpoints = 0;  ///< 0: all
  FaultPoint fault_point;        ///< tests only
};

struct PublishedCheckpoint {
  std::filesystem::path directory;
  int64_t step = 0;
  uint64_t bytes = 0;
  double write_seconds = 0.0;      ///< background, rank 0; 0 elsewhere
  double publish_seconds = 0.0;    ///< Finish() without the wait for the writer
  std::vector<std::string> notes;  ///< worth one log line each: leftovers renamed aside, …
};

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointWriterOptions options, CheckpointGroup& group);

  /// Waits for the writer thread. A save that was begun but not finished stays unpublished.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Collective. Starts a save of `step`, which must be the same on all ranks; only rank 0 needs
  /// the snapshot. Fails on all ranks alike, with nothing started, when a save is in progress, the
  /// disk lacks space, or `last` is in the way.
  Status Begin(int64_t step, CheckpointSnapshot snapshot);

  /// True from Begin() to the Poll() or Finish() that ended the save; the same on all ranks.
  bool in_progress() const { return in_progress_; }

  /// This rank's part of the write has ended (well or badly). Never blocks.
  bool write_finished() const;

  /// Collective, never waits for the disk: publishes when the write has ended, else nullopt. Needs
  /// in_progress().
  Result<std::optional<PublishedCheckpoint>> Poll();

  /// Collective. Waits for the write, then publishes. Needs in_progress().
  Result<PublishedCheckpoint> Finish();

  /// Begin and Finish.
  Result<PublishedCheckpoint> Save(int64_t step, CheckpointSnapshot snapshot);

  /// Waits for retention started by the last publication; what it removed or could not remove, one
  /// line each.
  std::vector<std::string> WaitForCleanup();

 private:
  struct WriteOutcome {
    Status status;
    uint64_t bytes = 0;
    double seconds = 0.0;
  };

  bool is_main() const { return group_.rank() == 0; }

  Result<std::string> Prepare(int64_t step, const CheckpointSnapshot& snapshot);
  WriteOutcome Write(const CheckpointSnapshot& snapshot, const std::string& temporary) const;
  Result<std::vector<std::string>> Publish();

  CheckpointWriterOptions options_;
  CheckpointGroup& group_;
  CheckpointPublisher publisher_;
  bool in_progress_ = false;
  int64_t step_ = 0;
  std::string step_name_;
  std::string temporary_;
  std::future<WriteOutcome> write_;                ///< main rank, while in progress
  std::future<std::vector<std::string>> cleanup_;  ///< main rank, after a publication
};

}  // namespace lr::worker
