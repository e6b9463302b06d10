#include "launcher/rendezvous/host_stream.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include <google/protobuf/arena.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include "proto/lr/v1/rendezvous.grpc.pb.h"

#include "common/rpc/grpc_status.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::milliseconds kFlushLimit{100};
constexpr std::chrono::seconds kEndLimit{1};
constexpr size_t kMostQueued = 2000;  // messages; a host that is so far behind does not read

class Stream final : public HostStream,
                     public grpc::ClientBidiReactor<v1::NodeMessage, v1::HostMessage>,
                     public std::enable_shared_from_this<Stream> {
 public:
  Stream(const std::string& target,
         const rpc::ChannelSecurity& security,
         std::shared_ptr<Listener> listener)
      : stub_(v1::Rendezvous::NewStub(rpc::OpenChannel(target, kLargestHostMessage, security))),
        listener_(std::move(listener)) {}

  void Begin() override {
    self_ = shared_from_this();
    stub_->async()->Join(&context_, this);
    AddHold();  // for what the loop starts; gone with Break()
    StartNextRead();
    StartCall();
  }

  void Send(v1::NodeMessage message) override {
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

  void ReadNext() override {
    const std::lock_guard lock(mutex_);
    if (!broken_) {
      StartNextRead();
    }
  }

  void Close() override {
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
    listener_->OnMessage(*incoming_);
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
    listener_->OnOver(
        status.ok(),
        status.ok() ? "the host ended the connection" : rpc::FromGrpc(status).message());
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }

 private:
  /// Into an arena: an assignment of a large run has some thousand parts.
  void StartNextRead() {
    arena_.Reset();
    incoming_ = google::protobuf::Arena::CreateMessage<v1::HostMessage>(&arena_);
    StartRead(incoming_);
  }

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
  google::protobuf::Arena arena_;
  v1::HostMessage* incoming_ = nullptr;  ///< in the arena

  std::mutex mutex_;  // leaf: guards the rest
  std::condition_variable changed_;
  std::deque<v1::NodeMessage> outbox_;
  bool writing_ = false;
  bool connected_ = false;
  bool broken_ = false;  ///< no operation may be started any more
  bool done_ = false;
};

}  // namespace

std::shared_ptr<HostStream> HostStream::Make(const std::string& target,
                                             const rpc::ChannelSecurity& security,
                                             std::shared_ptr<Listener> listener) {
  return std::make_shared<Stream>(target, security, std::move(listener));
}

}  // namespace lr::launcher
