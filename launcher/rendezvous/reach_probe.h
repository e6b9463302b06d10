#pragma once
/// Can this node reach rank 0's address and port? One connection attempt: an answer of any
/// kind, also "connection refused" because nobody listens there yet, proves the way; silence or "no
/// route" does not. Loop-confined; owned by the node's side; destroying it cancels the answer.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

namespace lr::launcher {

class ReachProbe {
 public:
  /// Calls `done` once from the event loop: empty, or the problem in words.
  ReachProbe(boost::asio::io_context& loop,
             const std::string& address,
             int port,
             std::chrono::milliseconds limit,
             std::function<void(const std::string& problem)> done);
  ~ReachProbe();

 private:
  struct Attempt;
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace lr::launcher
