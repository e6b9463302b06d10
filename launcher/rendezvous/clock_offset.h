#pragma once
/// (pure) This node's wall clock against the host's, from the echoes of its beats: the sample with
/// the shortest round trip is the best one (minimum-delay filter, as in NTP; S-11). Loop-confined.

#include <cstdint>
#include <limits>

namespace lr::launcher {

class ClockOffset {
 public:
  void Sample(int64_t sent_ns, int64_t host_ns, int64_t received_ns) {
    const int64_t round_trip = received_ns - sent_ns;
    if (round_trip >= 0 && round_trip < best_round_trip_) {
      best_round_trip_ = round_trip;
      offset_ = host_ns - (sent_ns + round_trip / 2);
    }
  }

  /// The host's reading at the moment of `local_ns`; the same while nothing was measured.
  int64_t ToHost(int64_t local_ns) const { return local_ns + offset_; }

 private:
  int64_t best_round_trip_ = std::numeric_limits<int64_t>::max();
  int64_t offset_ = 0;
};

}  // namespace lr::launcher
