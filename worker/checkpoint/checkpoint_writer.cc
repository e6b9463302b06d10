#include "worker/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <exception>
#include <pthread.h>
#include <utility>

#include "common/base/text.h"

namespace lr::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kReady[] = "ready";

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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
Result<std::string> CheckpointWriter::Prepare(int64_t step, const CheckpointSnapshot& snapshot) {
  if (snapshot.step.step != step) {
    return Internal("the snapshot is of step {}, the save of step {}", snapshot.step.step, step);
  }
  if (cleanup_.valid()) {
    cleanup_.wait();  // it removes temporary directories of this run
  }
  StartMessage message{StepDirectoryName(step, snapshot.total_steps), "", step};
  LR_ASSIGN(message.temporary,
            publisher_.CreateTemporary(message.step_name, SnapshotBytes(snapshot)));
  return message.Encode();
}

Status CheckpointWriter::Begin(int64_t step, CheckpointSnapshot snapshot) {
  if (in_progress_) {
    return FailedPrecondition(
        "the save of step {} is still in progress; Finish() it before saving step {}", step_, step);
  }
  Result<std::string> prepared = is_main() ? Prepare(step, snapshot) : Result<std::string>("");
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
  in_progress_ = true;
  if (is_main()) {
    write_ = std::async(std::launch::async,
                        [this, snapshot = std::move(snapshot), temporary = temporary_]() mutable {
                          const CheckpointSnapshot owned = std::move(
                              snapshot);  // freed when written, not when the result is read
                          return Write(owned, temporary);
                        });
  }
  return {};
}

CheckpointWriter::WriteOutcome CheckpointWriter::Write(const CheckpointSnapshot& snapshot,
                                                       const std::string& temporary) const {
  pthread_setname_np(pthread_self(), "ckpt-writer");
  const Clock::time_point start = Clock::now();
  WriteOutcome outcome;
  try {
    const Result<CheckpointManifest> manifest = WriteCheckpointFiles(
        snapshot, publisher_.PathOf(temporary), options_.run_id, options_.fault_point);
    outcome.status = manifest.status();
    for (size_t i = 0; manifest.ok() && i < manifest->files.size(); ++i) {
      outcome.bytes += manifest->files[i].size;
    }
  } catch (const std::exception& error) {
    outcome.status =
        Internal("writing '{}': {}", publisher_.PathOf(temporary).string(), error.what());
  }
  outcome.seconds = SecondsSince(start);
  return outcome;
}

bool CheckpointWriter::write_finished() const {
  return !write_.valid() || write_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result<std::optional<PublishedCheckpoint>> CheckpointWriter::Poll() {
  LR_ASSIGN(const std::string word, group_.BroadcastFromMain(write_finished() ? kReady : "busy"));
  if (word != kReady) {
    return std::optional<PublishedCheckpoint>();
  }
  LR_ASSIGN(PublishedCheckpoint published, Finish());
  return std::optional(std::move(published));
}

Result<PublishedCheckpoint> CheckpointWriter::Finish() {
  if (!in_progress_) {
    return FailedPrecondition("no save is in progress");
  }
  const WriteOutcome outcome = write_.valid() ? write_.get() : WriteOutcome{};
  const Clock::time_point start = Clock::now();
  in_progress_ = false;
  if (const Status agreed = group_.AgreeAll(outcome.status); !agreed.ok()) {
    if (is_main()) {
      publisher_.TrimAbandoned();
    }
    return agreed.WithContext("checkpoint of step {} not saved", step_);
  }
  Result<std::vector<std::string>> notes = Publish();
  LR_TRY(group_.AgreeAll(notes.status()).WithContext("checkpoint of step {} not published", step_));
  return PublishedCheckpoint{publisher_.PathOf(step_name_),
                             step_,
                             outcome.bytes,
                             outcome.seconds,
                             SecondsSince(start),
                             std::move(notes).value()};
}

Result<std::vector<std::string>> CheckpointWriter::Publish() {
  if (!is_main()) {
    return std::vector<std::string>();
  }
  Result<std::vector<std::string>> notes = publisher_.Publish(temporary_, step_name_);
  if (!notes.ok()) {
    publisher_.TrimAbandoned();
    return notes;
  }
  cleanup_ = std::async(std::launch::async, [this] {
    pthread_setname_np(pthread_self(), "ckpt-clean");
    return publisher_.Cleanup(options_.keep_checkpoints);
  });
  return notes;
}

Result<PublishedCheckpoint> CheckpointWriter::Save(int64_t step, CheckpointSnapshot snapshot) {
  LR_TRY(Begin(step, std::move(snapshot)));
  return Finish();
}

std::vector<std::string> CheckpointWriter::WaitForCleanup() {
  return cleanup_.valid() ? cleanup_.get() : std::vector<std::string>();
}

}  // namespace lr::worker
