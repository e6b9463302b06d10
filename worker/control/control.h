#pragma once
/// The worker's ear and mouth: requests from signals and from the launcher come in, phase and step
/// reports go out. No LibTorch. The training loop uses only this file; the stream (gRPC) is behind
/// ControlLink.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

/// What a rank was asked to do; ordered, the maximum over all ranks wins (design decision 4).
enum class ControlWord : uint8_t { kNone = 0, kCheckpoint = 1, kCheckpointAndStop = 2, kStop = 3 };

/// A word with the launcher's number of the newest request behind it; 0: signals alone.
struct NumberedWord {
  ControlWord word = ControlWord::kNone;
  int64_t number = 0;  ///< below 2^48
};

/// In one integer whose maximum is the larger word, then the larger number.
constexpr int64_t Pack(const NumberedWord& asked) {
  return (static_cast<int64_t>(asked.word) << 48) | asked.number;
}

constexpr NumberedWord Unpack(int64_t packed) {
  return {static_cast<ControlWord>(packed >> 48), packed & ((int64_t{1} << 48) - 1)};
}

/// The pending request of this rank. Raise() is async-signal-safe and may be called from any
/// thread; the step thread reads and clears it at step boundaries.
class ControlInbox {
 public:
  /// Keeps the larger of the pending and the new word, and of their numbers. `signal` (0: none) is
  /// remembered for the exit code. A number that was acted on before is ignored: the request
  /// reached this rank late, another rank had it in time.
  void Raise(ControlWord word, int signal = 0, int64_t number = 0);

  NumberedWord request() const { return Unpack(request_.load()); }

  ControlWord pending() const { return request().word; }

  /// The first signal that asked for a stop, or 0.
  int stop_signal() const { return stop_signal_.load(); }

  /// After the ranks acted on a request: forgets the pending one if that is neither larger nor
  /// newer.
  void Clear(const NumberedWord& acted_on);

 private:
  std::atomic<int64_t> request_{0};
  std::atomic<int64_t> acted_on_{0};  ///< the largest number
  std::atomic<int> stop_signal_{0};
};

/// SIGUSR1: checkpoint; SIGUSR2, SIGTERM, SIGINT: checkpoint and stop; a second SIGTERM or SIGINT
/// ends the process at once with 128 + n. Signals ignored at start stay ignored. Call once, before
/// any thread starts; `inbox` must live for the whole process. SIGHUP keeps its default action.
void InstallSignalHandlers(ControlInbox& inbox);

/// In the order of worker.proto.
enum class Phase {
  kInit,
  kData,
  kForward,
  kBackward,
  kReduce,
  kOptimizer,
  kEval,
  kCheckpoint,
  kIdle
};

struct StepReport {
  int64_t step = 0;
  int64_t total_steps = 0;
  double loss = 0.0;
  double samples_per_s = 0.0;
  double step_s = 0.0;  ///< duration of the step
};

/// How a save ended on this rank.
struct SaveReport {
  int64_t step = 0;
  std::string directory;  ///< published; empty when it failed
  Status outcome = {};
  int64_t request = 0;  ///< number of the newest request that it answers; 0: none
  uint64_t bytes = 0;   ///< of the whole checkpoint, where this rank knows them
  double write_s = 0.0;
  double publish_s = 0.0;
};

/// Where this rank stands in the sequence of one group's collectives; what is compared to find the
/// ranks that did not come (S-22).
struct CollectivePosition {
  std::string group;           ///< the same on all its members
  int64_t entered = 0;         ///< number of the newest one entered, from 1
  std::string operation = {};  ///< of that one, as far as known
  int64_t bytes = 0;
};

/// Called on the link thread, once a second at most, while the step thread may be inside a
/// collective.
using CollectiveProbe = std::function<std::vector<CollectivePosition>()>;

/// Everything the worker tells its launcher. All calls return at once and never fail: without a
/// socket, or after the stream is lost, they do nothing. Called by the step thread; one own thread
/// ("link") does the sending.
class ControlLink {
 public:
  /// Connects to `socket_path` (empty: a link that does nothing). Words that arrive are raised in
  /// `inbox`.
  static std::unique_ptr<ControlLink> Start(const std::string& socket_path,
                                            int rank,
                                            const std::string& output_dir,
                                            ControlInbox& inbox);

  virtual ~ControlLink() = default;

  /// A phase begins; said again inside a long one, it is a sign of progress (an evaluation says it
  /// for every batch). A rank that stands still in one for too long is taken to hang.
  virtual void SetPhase(Phase phase) = 0;

  /// The step is over; the rank is idle until it enters the next phase. Coalesced to at most one
  /// message per second.
  virtual void ReportStep(const StepReport& report) = 0;

  virtual void ObserveCollectives(CollectiveProbe probe) = 0;
  virtual void ReportSaveBegun(int64_t step, int64_t request) = 0;
  virtual void ReportCheckpoint(const SaveReport& report) = 0;
  virtual void ReportFailure(const std::string& what) = 0;

  /// "done", "stopped" or "failed"; flushes what is queued, waits at most 1 s.
  virtual void Goodbye(const std::string& outcome) = 0;
};

}  // namespace lr::worker
