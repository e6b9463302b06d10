#pragma once
/// Can this process reach an address and port? One connection attempt. Asked about rank 0's place
/// where an answer of any kind, also "connection refused" because nobody listens there yet,
/// proves the way; and about a launcher whose stream broke, where a refusal means that it is
/// gone. Loop-confined; destroying it cancels the answer.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

namespace lr::launcher {

struct ReachAnswer {
  enum class Kind {
    kConnected,
    kRefused,  ///< the way is there, the port is nobody's
    kSilent,   ///< no route, no answer, no such name
  };
  Kind kind = Kind::kSilent;
  std::string problem;  ///< in words; empty unless silent
};

class ReachProbe {
 public:
  using Done = std::function<void(const ReachAnswer&)>;

  /// Calls `done` once from the event loop.
  ReachProbe(boost::asio::io_context& loop,
             const std::string& address,
             int port,
             std::chrono::milliseconds limit,
             Done done);
  ~ReachProbe();

 private:
  struct Attempt;
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace lr::launcher
