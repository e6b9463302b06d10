#pragma once
/// The way from gRPC's threads to the event loop, which ends when the receiver does. A handler runs
/// on the loop, and only while the gate is open; so the receiver may hand out plain pointers to
/// itself, if it closes the gate in its destructor (on the loop's thread). Shared by the receiver
/// and its reactors; the loop may be gone once the gate is closed.

#include <memory>
#include <mutex>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace lr::rpc {

class LoopGate : public std::enable_shared_from_this<LoopGate> {
 public:
  explicit LoopGate(boost::asio::io_context& loop) : loop_(&loop) {}

  /// Any thread. Handlers of one thread run in order.
  template <typename Handler>
  void Post(Handler handler) {
    const std::lock_guard lock(mutex_);
    if (loop_ == nullptr) {
      return;
    }
    boost::asio::post(*loop_, [gate = shared_from_this(), handler = std::move(handler)]() mutable {
      if (gate->is_open()) {
        handler();
      }
    });
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    loop_ = nullptr;
  }

  bool is_open() const {
    const std::lock_guard lock(mutex_);
    return loop_ != nullptr;
  }

 private:
  mutable std::mutex mutex_;  // leaf
  boost::asio::io_context* loop_;
};

}  // namespace lr::rpc
