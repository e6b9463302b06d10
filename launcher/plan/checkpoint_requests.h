#pragma once
/// (pure) The requested checkpoints of a run and what became of them (C-4, C-5, C-7, spec 5.5): one
/// book, kept by the host, so that every node tells the same. The workers agree on the step
/// themselves; they report the number of the newest request that a save answers, and with it all
/// smaller ones are answered. Fed by the run machine; cannot fail.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/save_time.h"

namespace lr::launcher {

/// Relayed request of a client or another node. The last two kinds are answered by a WatchReport
/// with the same id.
struct ControlRequest {
  enum class Kind { kCheckpoint, kCheckpointAndStop, kStop, kStacks, kStragglers };
  Kind kind = Kind::kCheckpoint;
  std::string id = {};             ///< a repeated one is the same request
  int64_t number = 0;              ///< given by the host, ascending; 0: none yet
  int64_t within_ms = 0;           ///< how long the caller can wait; 0: as long as it takes
  bool only_when_started = false;  ///< refused before the first step instead of done after it
  std::optional<int> rank = {};    ///< kStacks: of this one alone
};

enum class RequestState { kAccepted, kRunning, kComplete, kFailed, kSkipped };

/// "accepted".
std::string_view RequestStateName(RequestState state);

/// The answer to one request, as far as it is known.
struct CheckpointResult {
  std::string id = {};
  int64_t number = 0;
  bool stop = false;
  RequestState state = RequestState::kAccepted;
  int64_t step = 0;
  std::string directory = {};
  int64_t bytes = 0;
  double agree_s = 0.0;  ///< from the request to the step that was agreed on
  double write_s = 0.0;  ///< of the slowest rank
  double publish_s = 0.0;
  std::vector<int> slowest = {};  ///< ranks that wrote longest, at most three
  std::string reason = {};

  bool final() const { return state >= RequestState::kComplete; }
};

/// A save of one rank began (`running`) or ended.
struct SaveNews {
  int rank = 0;
  bool running = false;
  int64_t step = 0;
  int64_t request = 0;         ///< the newest number that it answers; 0: none
  std::string directory = {};  ///< published; empty when it failed or runs
  std::string error = {};
  int64_t bytes = 0;
  double write_s = 0.0;
  double publish_s = 0.0;
};

/// What a request meets.
struct RequestConditions {
  std::string not_running = {};  ///< why nobody could save, in words; empty: workers run
  bool native = true;            ///< the workers report
  bool started = false;          ///< a step was told
  SaveEstimates estimates = {};
  WhenLate when_late = WhenLate::kTry;
};

class CheckpointRequests {
 public:
  using Instant = std::chrono::nanoseconds;
  using Changes = std::vector<CheckpointResult>;

  struct Answer {
    bool deliver = false;  ///< to the workers
    CheckpointResult result;
  };

  /// A known id gets what is known of it and is not delivered again.
  Answer Ask(const ControlRequest& request, const RequestConditions& conditions, Instant now);

  /// `ranks`: how many will report.
  Changes Saved(const SaveNews& news, int ranks, Instant now);

  /// Reports of slow ranks are waited for a second, no longer.
  Changes Tick(Instant now);

  /// The workers are gone. A checkpoint that was completed behind a request answers it, and so does
  /// the final one of a run that came to its end.
  Changes WorkersGone(bool succeeded, const std::string& how);

 private:
  struct Open {
    CheckpointResult result;
    Instant asked{0};
    bool foreign = false;  ///< its end is all that some programs say
  };

  struct Save {
    int64_t step = 0;
    int64_t request = 0;
    std::string directory = {};
    int64_t bytes = 0;
    double publish_s = 0.0;
    std::map<int, double> write_s = {};  ///< by rank, of those that reported the end
    std::optional<Instant> complete = {};
  };

  template <typename Which, typename Change>
  Changes ChangeOpen(Which which, Change change);
  Changes Finish();
  void Forget();

  int64_t numbers_ = 0;
  std::map<std::string, Open> known_;  ///< by id; the newest hundred or so
  std::optional<Save> save_;
  std::optional<Save> last_;
};

}  // namespace lr::launcher
