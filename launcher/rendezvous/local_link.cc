#include "launcher/rendezvous/local_link.h"

#include <utility>

#include <boost/asio/post.hpp>

namespace lr::launcher {
namespace {

/// The node's end, shared with messages under way: `events` is reset when the node's link is gone.
struct NodeEnd {
  HostLink::Events events;
  bool open = true;
};

class LocalSink : public NodeSink {
 public:
  LocalSink(boost::asio::io_context& loop, std::shared_ptr<NodeEnd> end)
      : loop_(loop), end_(std::move(end)) {}

  void Send(const SharedHostMessage& message) override {
    boost::asio::post(loop_, [end = end_, message] {
      if (end->open) {
        end->events.message(*message);
      }
    });
  }

  void Finish() override {}  // the last message tells the node

 private:
  boost::asio::io_context& loop_;
  std::shared_ptr<NodeEnd> end_;
};

class LocalLink : public HostLink {
 public:
  LocalLink(boost::asio::io_context& loop, RunHost& host, std::string address, Events events)
      : host_(host), end_(std::make_shared<NodeEnd>(NodeEnd{std::move(events)})) {
    id_ = host_.Open(std::make_shared<LocalSink>(loop, end_), std::move(address), true);
  }

  ~LocalLink() override { end_->open = false; }

  /// At once: the host answers by posting, so a caller is never called back from here.
  void Send(NodeMessage message) override { host_.Receive(id_, std::move(message)); }

 private:
  RunHost& host_;
  std::shared_ptr<NodeEnd> end_;
  MemberId id_ = 0;
};

}  // namespace

std::unique_ptr<HostLink> MakeLocalLink(boost::asio::io_context& loop,
                                        RunHost& host,
                                        std::string address,
                                        HostLink::Events events) {
  return std::make_unique<LocalLink>(loop, host, std::move(address), std::move(events));
}

}  // namespace lr::launcher
