#pragma once
/// (pure) What lets a stream between a node and its host break and go on (3.9): each side numbers
/// its messages from 1, keeps those that the other has not confirmed, and sends them again on the
/// next connection; the other drops what it has already. Loop-confined at both ends.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace lr::launcher {

/// Travels with every message.
struct Envelope {
  uint64_t number = 0;    ///< of this message; 0: not numbered (resuming)
  uint64_t received = 0;  ///< the newest number that its sender has of the other side
};

template <typename Message>
class SentMessages {
 public:
  /// The number of the message, which is kept until it is confirmed.
  uint64_t Add(Message message) {
    kept_.push_back(std::move(message));
    return last();
  }

  /// Forgets everything up to `received`; false: there never was such a number.
  [[nodiscard]] bool Confirm(uint64_t received) {
    if (received > last()) {
      return false;
    }
    while (confirmed_ < received) {
      kept_.pop_front();
      ++confirmed_;
    }
    return true;
  }

  /// What is not confirmed, in order, each with its number.
  template <typename Visitor>
  void ForEach(Visitor visit) const {
    uint64_t number = confirmed_;
    for (const Message& message : kept_) {
      visit(message, ++number);
    }
  }

  /// The other side is so far behind that it does not read.
  bool full() const { return kept_.size() > kMost; }

  uint64_t last() const { return confirmed_ + kept_.size(); }

  static constexpr size_t kMost = 1000;

 private:
  std::deque<Message> kept_;
  uint64_t confirmed_ = 0;
};

enum class Arrival { kNext, kRepeated, kGap };

class ReceivedMessages {
 public:
  Arrival Take(uint64_t number) {
    if (number != last_ + 1) {
      return number <= last_ ? Arrival::kRepeated : Arrival::kGap;
    }
    ++last_;
    return Arrival::kNext;
  }

  uint64_t last() const { return last_; }

 private:
  uint64_t last_ = 0;
};

}  // namespace lr::launcher
