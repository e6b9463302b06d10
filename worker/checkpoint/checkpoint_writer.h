#pragma once
/// Saves checkpoints: background writing, agreement of all ranks, publication by one rename
/// (launcher_and_service.md 5.3, checkpoints.md 7).
///
///   Begin(snapshot)    step thread, all ranks: rank 0 chooses `<step>.tmp-<pid>-<random>`, all
///                      agree to start
///   writing            writer threads: rank 0 the files in LeRobot's order, every rank its shards,
///                      each file flushed
///   Poll(), Finish()   step thread, all ranks: all agree that every write succeeded
///   publishing         writer thread of rank 0: metadata of the shards and the manifest, the
///                      directory renamed into place, the parent flushed, `last` switched
///   Poll(), Finish()   step thread, all ranks: all agree that it is published
///   afterwards         cleaning thread of rank 0: retention, leftovers of this run
///
/// Poll() never waits for a disk.
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

  /// Every rank's text, by rank.
  virtual Result<std::vector<std::string>> AllGather(const std::string& text) = 0;

  /// Ok when every rank is; else the first failed rank's status, the same on all ranks.
  virtual Status AgreeAll(const Status& mine) = 0;
};

/// One process.
class SingleProcessGroup final : public CheckpointGroup {
 public:
  int rank() const override { return 0; }

  int world_size() const override { return 1; }

  Result<std::string> BroadcastFromMain(std::string text) override { return text; }

  Result<std::vector<std::string>> AllGather(const std::string& text) override {
    return std::vector<std::string>{text};
  }

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
  uint64_t bytes = 0;              ///< of all ranks; known to rank 0
  double write_seconds = 0.0;      ///< this rank's writing, in the background; 0 if it has none
  double publish_seconds = 0.0;    ///< rank 0's publishing, in the background; 0 elsewhere
  std::vector<std::string> notes;  ///< worth one log line each: leftovers renamed aside, …
};

class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointWriterOptions options, CheckpointGroup& group);

  /// Waits for the writer thread. A save that was begun but not finished stays unpublished.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Collective. Starts a save of `step`, which must be the same on all ranks; ranks other
  /// than 0 need only the shards of the snapshot. Fails on all ranks alike, with nothing started,
  /// when a save is in progress, the disk lacks space, or `last` is in the way.
  Status Begin(int64_t step, CheckpointSnapshot snapshot);

  /// True from Begin() to the Poll() or Finish() that ended the save; the same on all ranks.
  bool in_progress() const { return stage_ != Stage::kIdle; }

  /// Collective, never waits for the disk: goes on to the next stage when all ranks have ended this
  /// one; the checkpoint when it is published, else nullopt. Needs in_progress().
  Result<std::optional<PublishedCheckpoint>> Poll();

  /// Collective. Waits for the writing, then for the publishing. Needs in_progress().
  Result<PublishedCheckpoint> Finish();

  /// Begin and Finish.
  Result<PublishedCheckpoint> Save(int64_t step, CheckpointSnapshot snapshot);

  /// Waits for retention started by the last publication; what it removed or could not remove, one
  /// line each.
  std::vector<std::string> WaitForCleanup();

 private:
  enum class Stage { kIdle, kWriting, kPublishing };

  /// Of one rank's writer thread.
  struct Written {
    std::vector<CheckpointFile> files;  ///< rank 0
    std::vector<ShardedFolder> shards;  ///< without their data
    std::vector<std::string> reports;   ///< one per sharded folder
    double seconds = 0.0;
  };

  /// Of rank 0's writer thread.
  struct Publication {
    uint64_t bytes = 0;
    std::vector<std::string> notes;
    double seconds = 0.0;
  };

  bool is_main() const { return group_.rank() == 0; }

  Result<std::string> Prepare(int64_t step, const CheckpointSnapshot& snapshot, uint64_t bytes);
  Result<Written> Write(CheckpointSnapshot snapshot, const std::string& temporary) const;
  Result<Publication> Publish(const Written& written,
                              const std::vector<std::vector<std::string>>& reports);
  bool stage_finished() const;
  Status StartPublishing();
  Result<PublishedCheckpoint> ConfirmPublished();
  Status Abandon(const Status& failed, const char* what);

  CheckpointWriterOptions options_;
  CheckpointGroup& group_;
  CheckpointPublisher publisher_;
  Stage stage_ = Stage::kIdle;
  int64_t step_ = 0;
  std::string step_name_;
  std::string temporary_;
  double write_seconds_ = 0.0;
  std::future<Result<Written>> write_;             ///< while writing
  std::future<Result<Publication>> publication_;   ///< main rank, while publishing
  std::future<std::vector<std::string>> cleanup_;  ///< main rank, after a publication
};

}  // namespace lr::worker
