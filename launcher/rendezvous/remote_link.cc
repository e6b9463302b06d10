#include "launcher/rendezvous/remote_link.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include "proto/lr/v1/rendezvous.grpc.pb.h"

#include "common/rpc/grpc_status.h"
#include "common/rpc/loop_gate.h"
#include "common/rpc/transport.h"
#include "launcher/rendezvous/endpoint_choice.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::seconds kConnectLimit{3};
constexpr std::chrono::milliseconds kFlushLimit{100};
constexpr std::chrono::seconds kEndLimit{1};
constexpr size_t kMostQueued = 1000;  // messages; a host that is so far behind does not read

/// What the stream tells; called on gRPC's threads.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnConnected() = 0;
  virtual void OnMessage(HostMessage message) = 0;
  virtual void OnOver(std::string why) = 0;
};

/// Send(), ReadNext() and Close() from the loop, the On… functions from gRPC. Holds itself alive,
/// and the call open, from Begin() until the stream breaks or is closed.
class Stream final : public grpc::ClientBidiReactor<v1::NodeMessage, v1::HostMessage>,
                     public std::enable_shared_from_this<Stream> {
 public:
  Stream(const std::string& target, std::shared_ptr<Listener> listener)
      : stub_(v1::Rendezvous::NewStub(rpc::OpenChannel(target, kLargestHostMessage))),
        listener_(std::move(listener)) {}

  void Begin() {
    self_ = shared_from_this();
    stub_->async()->Join(&context_, this);
    AddHold();  // for what the loop starts; gone with Break()
    StartRead(&incoming_);
    StartCall();
  }

  void Send(v1::NodeMessage message) {
    const std::lock_guard lock(mutex_);
    if (broken_) {
      return;
    }
    outbox_.push_back(std::move(message));
    if (outbox_.size() > kMostQueued) {
      context_.TryCancel();
    } else {
      WriteNextLocked();
    }
  }

  void ReadNext() {
    const std::lock_guard lock(mutex_);
    if (!broken_) {
      StartRead(&incoming_);
    }
  }

  /// Waits shortly for what was sent, then ends the call and waits for its end.
  void Close() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFlushLimit, [&] { return broken_ || outbox_.empty() || !connected_; });
    lock.unlock();
    context_.TryCancel();
    Break();
    lock.lock();
    changed_.wait_for(lock, kEndLimit, [&] { return done_; });
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (ok) {
      {
        const std::lock_guard lock(mutex_);
        connected_ = true;
      }
      listener_->OnConnected();
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      return Break();
    }
    Result<HostMessage> message = FromWire(incoming_);
    if (message.ok()) {
      return listener_->OnMessage(std::move(message).value());
    }
    listener_->OnOver(
        fmt::format("the host sent something unusable: {}", message.status().message()));
    context_.TryCancel();
    Break();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      outbox_.pop_front();
      if (ok && !broken_) {
        WriteNextLocked();
      }
    }
    changed_.notify_all();
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Stream> self = std::move(self_);
    listener_->OnOver(status.ok() ? "the host ended the connection"
                                  : rpc::FromGrpc(status).message());
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }

 private:
  void WriteNextLocked() {
    if (!writing_ && !outbox_.empty()) {
      writing_ = true;
      StartWrite(&outbox_.front());
    }
  }

  void Break() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(broken_, true)) {
        return;
      }
    }
    changed_.notify_all();
    RemoveHold();
  }

  const std::unique_ptr<v1::Rendezvous::Stub> stub_;
  const std::shared_ptr<Listener> listener_;
  grpc::ClientContext context_;
  std::shared_ptr<Stream> self_;
  v1::HostMessage incoming_;

  std::mutex mutex_;  // leaf: guards the rest
  std::condition_variable changed_;
  std::deque<v1::NodeMessage> outbox_;
  bool writing_ = false;
  bool connected_ = false;
  bool broken_ = false;  ///< no operation may be started any more
  bool done_ = false;
};

class RemoteLink final : public HostLink {
 public:
  RemoteLink(boost::asio::io_context& loop, const std::string& host, int port, Events events)
      : target_(HostPort(host, port)),
        events_(std::make_shared<Events>(std::move(events))),
        gate_(std::make_shared<rpc::LoopGate>(loop)),
        connect_timer_(loop, kConnectLimit),
        stream_(std::make_shared<Stream>(rpc::TcpTarget(host, port),
                                         std::make_shared<Inbox>(*this, gate_))) {
    connect_timer_.async_wait([this, gate = gate_](const boost::system::error_code& error) {
      if (!error && gate->is_open()) {
        OnOver(fmt::format("no answer within {} s", kConnectLimit.count()));
      }
    });
    stream_->Begin();
  }

  ~RemoteLink() override {
    gate_->Close();
    stream_->Close();
  }

  void Send(NodeMessage message) override { stream_->Send(ToWire(message)); }

 private:
  /// From gRPC's threads to the loop.
  class Inbox final : public Listener {
   public:
    Inbox(RemoteLink& link, std::shared_ptr<rpc::LoopGate> gate)
        : link_(link), gate_(std::move(gate)) {}

    void OnConnected() override {
      gate_->Post([this] { link_.connect_timer_.cancel(); });
    }

    void OnMessage(HostMessage message) override {
      gate_->Post([this, message = std::move(message)] { link_.OnMessage(message); });
    }

    void OnOver(std::string why) override {
      gate_->Post([this, why = std::move(why)] { link_.OnOver(why); });
    }

   private:
    RemoteLink& link_;  // used behind the gate only
    const std::shared_ptr<rpc::LoopGate> gate_;
  };

  /// The receiver may destroy this link: nothing of it is touched afterwards.
  void OnMessage(const HostMessage& message) {
    const std::shared_ptr<Stream> stream = stream_;
    const std::shared_ptr<rpc::LoopGate> gate = gate_;
    const std::shared_ptr<Events> events = events_;
    if (!over_) {
      events->message(message);
    }
    if (gate->is_open()) {
      stream->ReadNext();
    }
  }

  void OnOver(const std::string& why) {
    connect_timer_.cancel();
    if (!std::exchange(over_, true)) {
      const std::shared_ptr<Events> events = events_;
      events->lost(fmt::format("{}: {}", target_, why));
    }
  }

  const std::string target_;
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<rpc::LoopGate> gate_;
  boost::asio::steady_timer connect_timer_;
  const std::shared_ptr<Stream> stream_;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<HostLink> MakeRemoteLink(boost::asio::io_context& loop,
                                         const std::string& host,
                                         int port,
                                         HostLink::Events events) {
  return std::make_unique<RemoteLink>(loop, host, port, std::move(events));
}

}  // namespace lr::launcher
