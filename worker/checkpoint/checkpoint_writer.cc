#include "worker/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <pthread.h>
#include <utility>

#include "common/base/text.h"

namespace lr::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kEnded[] = "ended";

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs `work` on a thread of its own; what LibTorch throws there becomes a status.
template <typename T>
std::future<Result<T>> InBackground(const char* thread_name, std::function<Result<T>()> work) {
  return std::async(std::launch::async, [thread_name, work = std::move(work)]() -> Result<T> {
    pthread_setname_np(pthread_self(), thread_name);
    try {
      return work();
    } catch (const std::exception& error) {
      return Internal("{}: {}", thread_name, error.what());
    }
  });
}

/// What rank 0 broadcasts at the start of a save.
struct StartMessage {
  std::string step_name;
  std::string temporary;
  int64_t step = 0;

  std::string Encode() const { return fmt::format("{}\n{}\n{}", step_name, temporary, step); }

  static Result<StartMessage> Decode(const std::string& text) {
    const std::vector<std::string> lines = Split(text, '\n');
    const std::optional<int64_t> step = lines.size() == 3 ? ParseInt(lines[2]) : std::nullopt;
    if (!step) {
      return Internal("rank 0 announced the save with '{}'", text);
    }
    return StartMessage{lines[0], lines[1], *step};
  }
};

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options, CheckpointGroup& group)
    : options_(std::move(options)),
      group_(group),
      publisher_(options_.output_dir, options_.run_id, options_.fault_point) {}

CheckpointWriter::~CheckpointWriter() = default;  // the futures wait for their threads

/// Main rank: the directory to write into. Returns the encoded start message.
Result<std::string> CheckpointWriter::Prepare(int64_t step,
                                              const CheckpointSnapshot& snapshot,
                                              uint64_t bytes) {
  if (snapshot.step.step != step) {
    return Internal("the snapshot is of step {}, the save of step {}", snapshot.step.step, step);
  }
  if (cleanup_.valid()) {
    cleanup_.wait();  // it removes temporary directories of this run
  }
  StartMessage message{StepDirectoryName(step, snapshot.total_steps), "", step};
  LR_ASSIGN(message.temporary, publisher_.CreateTemporary(message.step_name, bytes));
  return message.Encode();
}

Status CheckpointWriter::Begin(int64_t step, CheckpointSnapshot snapshot) {
  if (in_progress()) {
    return FailedPrecondition(
        "the save of step {} is still in progress; Finish() it before saving step {}", step_, step);
  }
  LR_ASSIGN(const std::vector<std::string> sizes,
            group_.AllGather(std::to_string(SnapshotBytes(snapshot))));
  uint64_t bytes = 0;
  for (const std::string& size : sizes) {
    bytes += static_cast<uint64_t>(ParseInt(size).value_or(0));
  }
  Result<std::string> prepared =
      is_main() ? Prepare(step, snapshot, bytes) : Result<std::string>("");
  LR_ASSIGN(const std::string text, group_.BroadcastFromMain(prepared.ok() ? *prepared : ""));
  Status mine = prepared.status();
  if (!text.empty()) {
    LR_ASSIGN(StartMessage message, StartMessage::Decode(text));
    if (message.step != step) {
      mine = FailedPrecondition(
          "rank {} is at step {}, rank 0 saves step {}", group_.rank(), step, message.step);
    }
    step_ = message.step;
    step_name_ = std::move(message.step_name);
    temporary_ = std::move(message.temporary);
  }
  if (const Status agreed = group_.AgreeAll(mine); !agreed.ok()) {
    if (is_main()) {
      publisher_.TrimAbandoned();
    }
    return agreed.WithContext("checkpoint of step {} not started", step);
  }
  stage_ = Stage::kWriting;
  // Shared, because a std::function is copyable; freed with the thread's work.
  const auto shared = std::make_shared<CheckpointSnapshot>(std::move(snapshot));
  write_ = InBackground<Written>("ckpt-writer", [this, shared, temporary = temporary_] {
    return Write(std::move(*shared), temporary);
  });
  return {};
}

/// Frees the snapshot's tensors when they are written, not when the outcome is read.
Result<CheckpointWriter::Written> CheckpointWriter::Write(CheckpointSnapshot snapshot,
                                                          const std::string& temporary) const {
  const Clock::time_point start = Clock::now();
  const std::filesystem::path directory = publisher_.PathOf(temporary);
  Written written;
  if (is_main()) {
    LR_ASSIGN(written.files, WriteCheckpointFiles(snapshot, directory, options_.fault_point));
  }
  LR_ASSIGN(written.reports, WriteShards(snapshot.shards, directory, options_.fault_point));
  written.shards = std::move(snapshot.shards);
  for (ShardedFolder& folder : written.shards) {
    folder.save.DropData();
  }
  const bool writes = is_main() || !written.shards.empty();
  written.seconds = writes ? SecondsSince(start) : 0.0;
  return written;
}

bool CheckpointWriter::stage_finished() const {
  const auto is_ready = [](const auto& future) {
    return !future.valid() || future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  return is_ready(write_) && is_ready(publication_);
}

Result<std::optional<PublishedCheckpoint>> CheckpointWriter::Poll() {
  LR_ASSIGN(const std::vector<std::string> words,
            group_.AllGather(stage_finished() ? kEnded : "busy"));
  for (const std::string& word : words) {
    if (word != kEnded) {
      return std::optional<PublishedCheckpoint>();
    }
  }
  if (stage_ == Stage::kWriting) {
    LR_TRY(StartPublishing());
    return std::optional<PublishedCheckpoint>();
  }
  LR_ASSIGN(PublishedCheckpoint published, ConfirmPublished());
  return std::optional(std::move(published));
}

Result<PublishedCheckpoint> CheckpointWriter::Finish() {
  if (!in_progress()) {
    return FailedPrecondition("no save is in progress");
  }
  if (stage_ == Stage::kWriting) {
    LR_TRY(StartPublishing());
  }
  return ConfirmPublished();
}

/// Ends the save on this rank; `failed` is what all ranks agreed on.
Status CheckpointWriter::Abandon(const Status& failed, const char* what) {
  stage_ = Stage::kIdle;
  if (is_main()) {
    publisher_.TrimAbandoned();
  }
  return failed.WithContext("checkpoint of step {} not {}", step_, what);
}

Status CheckpointWriter::StartPublishing() {
  Result<Written> written = write_.get();
  if (const Status agreed = group_.AgreeAll(written.status()); !agreed.ok()) {
    return Abandon(agreed, "saved");
  }
  write_seconds_ = written->seconds;
  std::vector<std::vector<std::string>> reports;
  for (const std::string& mine : written->reports) {
    Result<std::vector<std::string>> of_folder = group_.AllGather(mine);
    if (!of_folder.ok()) {
      return Abandon(of_folder.status(), "saved");
    }
    reports.push_back(std::move(of_folder).value());
  }
  stage_ = Stage::kPublishing;
  if (is_main()) {
    const auto shared = std::make_shared<Written>(std::move(written).value());
    publication_ = InBackground<Publication>(
        "ckpt-writer",
        [this, shared, reports = std::move(reports)] { return Publish(*shared, reports); });
  }
  return {};
}

Result<CheckpointWriter::Publication> CheckpointWriter::Publish(
    const Written& written, const std::vector<std::vector<std::string>>& reports) {
  const Clock::time_point start = Clock::now();
  CheckpointManifest manifest;
  manifest.step = step_;
  manifest.run_id = options_.run_id;
  manifest.files = written.files;
  Publication publication;
  LR_ASSIGN(publication.bytes,
            SealCheckpoint(std::move(manifest),
                           written.shards,
                           reports,
                           publisher_.PathOf(temporary_),
                           options_.fault_point));
  LR_ASSIGN(publication.notes, publisher_.Publish(temporary_, step_name_));
  publication.seconds = SecondsSince(start);
  return publication;
}

Result<PublishedCheckpoint> CheckpointWriter::ConfirmPublished() {
  Result<Publication> mine = is_main() ? publication_.get() : Publication();
  if (const Status agreed = group_.AgreeAll(mine.status()); !agreed.ok()) {
    return Abandon(agreed, "published");
  }
  stage_ = Stage::kIdle;
  if (is_main()) {
    cleanup_ = std::async(std::launch::async, [this] {
      pthread_setname_np(pthread_self(), "ckpt-clean");
      return publisher_.Cleanup(options_.keep_checkpoints);
    });
  }
  return PublishedCheckpoint{publisher_.PathOf(step_name_),
                             step_,
                             mine->bytes,
                             write_seconds_,
                             mine->seconds,
                             std::move(mine->notes)};
}

Result<PublishedCheckpoint> CheckpointWriter::Save(int64_t step, CheckpointSnapshot snapshot) {
  LR_TRY(Begin(step, std::move(snapshot)));
  return Finish();
}

std::vector<std::string> CheckpointWriter::WaitForCleanup() {
  return cleanup_.valid() ? cleanup_.get() : std::vector<std::string>();
}

}  // namespace lr::worker
