#pragma once
/// (pure) Which hosts take no part for a while because their nodes failed again and again (S-44):
/// two failures that are the node's own within an hour exclude it for 10 minutes, and for twice as
/// long each further time, up to a day. Kept by the run machine; times are the host's monotonic
/// clock. Keyed by host name: the instance that failed is gone when the next one asks.

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace lr::launcher {

class NodeHealth {
 public:
  using Instant = std::chrono::nanoseconds;

  /// A failure attributed to the node.
  void Blame(const std::string& host, const std::string& why, Instant now) {
    Record& record = records_[host];
    const bool again = record.last && now - *record.last <= kMemory;
    record.last = now;
    record.why = why;
    if (again) {
      record.until = now + std::min<Instant>(kLongest, kFirst * (1 << record.exclusions));
      record.exclusions = std::min(record.exclusions + 1, kMostDoublings);
      record.last.reset();
    }
  }

  /// The reason and the rest of the time, in words; nullopt: welcome.
  std::optional<std::string> WhyExcluded(const std::string& host, Instant now) const {
    const auto record = records_.find(host);
    if (record == records_.end() || now >= record->second.until) {
      return std::nullopt;
    }
    const auto left = std::chrono::duration<double>(record->second.until - now);
    return fmt::format(
        "{} is excluded for {:.0f} s more after two failures of its own, the last: {}",
        host,
        left.count(),
        record->second.why);
  }

 private:
  static constexpr std::chrono::hours kMemory{1};
  static constexpr std::chrono::minutes kFirst{10};
  static constexpr std::chrono::hours kLongest{24};
  static constexpr int kMostDoublings = 8;

  struct Record {
    std::optional<Instant> last;
    Instant until{0};
    int exclusions = 0;
    std::string why;
  };

  std::map<std::string, Record> records_;
};

}  // namespace lr::launcher
