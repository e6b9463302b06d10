#pragma once
/// The trainer's side of checkpoints: the ranks as a group that saves together, and the lock of the
/// output folder. Contents, files and publication are worker/checkpoint's; the steps of TrainingRun
/// that use them are in checkpointing.cc. Step thread.

#include "common/contract/worker_environment.h"
#include "common/io/directory_lock.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/comm/communicator.h"

namespace lr::worker {

/// All ranks of the run.
class RankGroup final : public CheckpointGroup {
 public:
  explicit RankGroup(Communicator& ranks) : ranks_(ranks) {}

  int rank() const override { return ranks_.rank(); }

  int world_size() const override { return ranks_.size(); }

  Result<std::string> BroadcastFromMain(std::string text) override {
    return ranks_.BroadcastFromMain(std::move(text));
  }

  Result<std::vector<std::string>> AllGather(const std::string& text) override {
    return ranks_.AllGather(text);
  }

  Status AgreeAll(const Status& mine) override { return ranks_.AgreeAll(mine); }

 private:
  Communicator& ranks_;
};

/// Creates the output folder when needed and locks it for this run; refused while another run holds
/// it.
Result<DirectoryLock> LockOutputDirectory(const std::string& output_dir, const std::string& run_id);

}  // namespace lr::worker
