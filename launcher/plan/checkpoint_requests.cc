#include "launcher/plan/checkpoint_requests.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

constexpr size_t kMostKnown = 128;
constexpr size_t kMostSlowest = 3;
constexpr std::chrono::seconds kSlowReports{1};

double Seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

std::vector<int> Slowest(const std::map<int, double>& write_s) {
  std::vector<std::pair<double, int>> ranks;
  for (const auto& [rank, seconds] : write_s) {
    if (seconds > 0.0) {
      ranks.emplace_back(-seconds, rank);
    }
  }
  std::ranges::sort(ranks);
  std::vector<int> slowest;
  for (const auto& [seconds, rank] : ranks) {
    if (slowest.size() < kMostSlowest) {
      slowest.push_back(rank);
    }
  }
  return slowest;
}

/// Why the workers are not even asked; empty: they are.
std::string Refusal(const ControlRequest& request, const RequestConditions& conditions) {
  if (!conditions.not_running.empty()) {
    return conditions.not_running;
  }
  if (!conditions.native && request.kind != ControlRequest::Kind::kCheckpoint) {
    return "the program is not lr-train: ask for a checkpoint and wait for it, then cancel the run";
  }
  if (conditions.native && !conditions.started && request.only_when_started) {
    return "NOT_STARTED: no step was finished yet";
  }
  return "";
}

}  // namespace

std::string_view RequestStateName(RequestState state) {
  constexpr std::string_view kNames[] = {"accepted", "running", "complete", "failed", "skipped"};
  return kNames[static_cast<size_t>(state)];
}

CheckpointRequests::Answer CheckpointRequests::Ask(const ControlRequest& request,
                                                   const RequestConditions& conditions,
                                                   Instant now) {
  if (const auto known = known_.find(request.id); known != known_.end()) {
    return {false, known->second.result};
  }
  CheckpointResult result{.id = request.id,
                          .number = ++numbers_,
                          .stop = request.kind != ControlRequest::Kind::kCheckpoint};
  if (std::string refusal = Refusal(request, conditions); !refusal.empty()) {
    result.state = RequestState::kFailed;
    result.reason = std::move(refusal);
    return {false, result};  // the same request may be made again when it can be done
  }
  if (request.within_ms > 0) {
    const TimeCheck check =
        CheckTime(conditions.estimates, std::chrono::milliseconds(request.within_ms));
    result.reason = check.fits ? "" : check.reason;
    if (!check.fits && conditions.when_late == WhenLate::kSkip) {
      result.state = RequestState::kSkipped;
    }
  }
  if (!conditions.native) {
    result.reason = "that all ranks save the same step is the program's affair";
  }
  Forget();
  known_[request.id] = {result, now, !conditions.native};
  return {!result.final(), result};
}

template <typename Which, typename Change>
CheckpointRequests::Changes CheckpointRequests::ChangeOpen(Which which, Change change) {
  Changes changes;
  for (auto& [id, open] : known_) {
    if (!open.result.final() && which(open)) {
      change(open);
      changes.push_back(open.result);
    }
  }
  return changes;
}

CheckpointRequests::Changes CheckpointRequests::Saved(const SaveNews& news,
                                                      int ranks,
                                                      Instant now) {
  const auto answered = [&](const Open& open) { return open.result.number <= news.request; };
  if (!news.error.empty()) {  // the ranks agreed on it
    save_.reset();
    return ChangeOpen(answered, [&](Open& open) {
      open.result.state = RequestState::kFailed;
      open.result.step = news.step;
      open.result.reason = news.error;
    });
  }
  if (!save_ || save_->step != news.step) {
    if (!news.running && last_ && last_->step == news.step && news.request <= last_->request) {
      return {};  // a rank that reports late
    }
    save_ = Save{.step = news.step};
  }
  save_->request = std::max(save_->request, news.request);
  if (news.running) {
    const auto begins = [&](const Open& open) {
      return answered(open) && open.result.state == RequestState::kAccepted;
    };
    return ChangeOpen(begins, [&](Open& open) {
      open.result.state = RequestState::kRunning;
      open.result.step = news.step;
      open.result.agree_s = Seconds(now - open.asked);
    });
  }
  save_->directory = news.directory;
  save_->bytes = std::max(save_->bytes, news.bytes);
  save_->publish_s = std::max(save_->publish_s, news.publish_s);
  save_->write_s[news.rank] = news.write_s;
  save_->complete = save_->complete.value_or(now);
  return static_cast<int>(save_->write_s.size()) >= ranks ? Finish() : Changes();
}

CheckpointRequests::Changes CheckpointRequests::Finish() {
  last_ = *std::exchange(save_, std::nullopt);
  return ChangeOpen([&](const Open& open) { return open.result.number <= last_->request; },
                    [&](Open& open) {
                      open.result.state = RequestState::kComplete;
                      open.result.step = last_->step;
                      open.result.directory = last_->directory;
                      open.result.bytes = last_->bytes;
                      open.result.publish_s = last_->publish_s;
                      open.result.slowest = Slowest(last_->write_s);
                      for (const auto& [rank, seconds] : last_->write_s) {
                        open.result.write_s = std::max(open.result.write_s, seconds);
                      }
                    });
}

CheckpointRequests::Changes CheckpointRequests::Tick(Instant now) {
  const bool due = save_ && save_->complete && now - *save_->complete >= kSlowReports;
  return due ? Finish() : Changes();
}

CheckpointRequests::Changes CheckpointRequests::WorkersGone(bool succeeded,
                                                            const std::string& how) {
  Changes changes = save_ && save_->complete ? Finish() : Changes();
  save_.reset();
  const std::optional<Save> last = std::exchange(last_, std::nullopt);
  const Changes rest = ChangeOpen([](const Open&) { return true; },
                                  [&](Open& open) {
                                    CheckpointResult& result = open.result;
                                    const bool behind = last && last->complete >= open.asked;
                                    if (succeeded && open.foreign) {
                                      result.state = RequestState::kComplete;
                                      result.reason = "the program ended well; " + result.reason;
                                    } else if (last && (succeeded || behind)) {
                                      result.state = RequestState::kComplete;
                                      result.step = last->step;
                                      result.directory = last->directory;
                                      result.bytes = last->bytes;
                                      result.reason = "the last checkpoint answers it";
                                    } else {
                                      result.state = RequestState::kFailed;
                                      result.reason = how;
                                    }
                                  });
  changes.insert(changes.end(), rest.begin(), rest.end());
  return changes;
}

/// Makes room: the oldest that are answered.
void CheckpointRequests::Forget() {
  while (known_.size() >= kMostKnown) {
    auto oldest = known_.end();
    for (auto it = known_.begin(); it != known_.end(); ++it) {
      const bool older =
          oldest == known_.end() || it->second.result.number < oldest->second.result.number;
      if (it->second.result.final() && older) {
        oldest = it;
      }
    }
    if (oldest == known_.end()) {
      return;
    }
    known_.erase(oldest);
  }
}

}  // namespace lr::launcher
