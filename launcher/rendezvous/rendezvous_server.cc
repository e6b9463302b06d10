#include "launcher/rendezvous/rendezvous_server.h"

#include <cerrno>
#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <spdlog/spdlog.h>

#include "proto/lr/v1/rendezvous.grpc.pb.h"

#include "common/rpc/loop_gate.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport.h"
#include "launcher/rendezvous/endpoint_choice.h"
#include "launcher/rendezvous/port_owner.h"
#include "launcher/rendezvous/session_watch.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::seconds kIntroduction{5};  // from the connection to the Hello
constexpr std::chrono::seconds kFlushLimit{1};

using Service = v1::Rendezvous::WithRawCallbackMethod_Join<
    v1::Rendezvous::WithCallbackMethod_Describe<v1::Rendezvous::Service>>;

/// One Describe under way; answered once, by the loop or by the end of the server.
class DescribeCall {
 public:
  DescribeCall(grpc::ServerUnaryReactor* reactor, v1::DescribeReply* reply)
      : reactor_(reactor), reply_(reply) {}

  void Answer(const RunMachine& machine) {
    if (reactor_ == nullptr) {
      return;
    }
    reply_->set_protocol(kProtocolVersion);
    reply_->set_run_id(machine.run_id());
    reply_->set_state(std::string(RunStateName(machine.state())));
    reply_->set_epoch(machine.epoch());
    reply_->set_waiting_for(machine.WaitingFor());
    std::exchange(reactor_, nullptr)->Finish(grpc::Status::OK);
  }

  void Abandon() {
    if (reactor_ != nullptr) {
      std::exchange(reactor_, nullptr)
          ->Finish({grpc::StatusCode::UNAVAILABLE, "this node's part of the run is over"});
    }
  }

 private:
  grpc::ServerUnaryReactor* reactor_;
  v1::DescribeReply* reply_;
};

/// Why a bind fails, which gRPC does not tell; ok when it would not.
Status TryBind(const std::string& address, int port) {
  boost::system::error_code error;
  const auto literal = boost::asio::ip::make_address(address, error);
  boost::asio::io_context unused;
  boost::asio::ip::tcp::acceptor acceptor(unused);
  if (!error) {
    const boost::asio::ip::tcp::endpoint endpoint(literal, static_cast<uint16_t>(port));
    acceptor.open(endpoint.protocol(), error);
    acceptor.set_option(boost::asio::socket_base::reuse_address(true), error);
    acceptor.bind(endpoint, error);
    if (!error) {
      acceptor.listen(1, error);
    }
  }
  if (error == boost::asio::error::address_in_use) {
    return AlreadyExists("{}", DescribeBusyPort(port));
  }
  if (error) {
    return Unavailable("{}", error.message());
  }
  return {};
}

class ServerImpl final : public RendezvousServer, public Service {
 public:
  ServerImpl(boost::asio::io_context& loop, RunHost& host, const Trust& trust)
      : loop_(loop),
        host_(host),
        gate_(std::make_shared<rpc::LoopGate>(loop)),
        listener_(std::make_shared<Inbox>(*this, gate_)),
        sessions_(loop, host, trust.token ? std::optional(*trust.token) : std::nullopt) {}

  ~ServerImpl() override {
    gate_->Close();
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    // With the gate closed and the loop's thread here, nobody else touches the two lists.
    for (const std::weak_ptr<NodeStream>& stream : streams_) {
      if (const std::shared_ptr<NodeStream> alive = stream.lock()) {
        alive->session.reset();
        alive->Finish();
      }
    }
    for (const std::shared_ptr<DescribeCall>& call : describes_) {
      call->Abandon();
    }
    if (server_) {
      server_->Shutdown(std::chrono::system_clock::now() + kFlushLimit);
    }
  }

  Status Listen(const std::string& address, int port, const TrustPlan& trust) {
    LR_ASSIGN(const auto credentials,
              rpc::ServerCredentials({.certificate = trust.tls_certificate,
                                      .key = trust.tls_key,
                                      .authorities = trust.tls_authorities,
                                      .mutual = trust.tls_mutual}));
    grpc::ServerBuilder builder;
    rpc::ConfigureServer(builder, kLargestNodeMessage);
    builder.AddListeningPort(HostPort(address, port), credentials, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ && port_ != 0) {
      return {};
    }
    LR_TRY(TryBind(address, port)
               .WithContext("cannot serve the rendezvous on {}", HostPort(address, port)));
    return Unavailable("gRPC cannot serve on {}", HostPort(address, port));
  }

  int port() const override { return port_; }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Join(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<NodeStream>(*context, listener_);
    stream->Begin();
    const std::lock_guard lock(mutex_);
    if (closing_) {
      stream->Finish();
      return stream.get();
    }
    streams_.remove_if([](const auto& known) { return known.expired(); });
    streams_.push_back(stream);
    gate_->Post([this, stream, peer = context->peer()] { OnOpened(stream, peer); });
    return stream.get();
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* /*request*/,
                                     v1::DescribeReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    auto call = std::make_shared<DescribeCall>(reactor, reply);
    const std::lock_guard lock(mutex_);
    if (closing_) {
      call->Abandon();
      return reactor;
    }
    describes_.push_back(call);
    gate_->Post([this, call] {
      call->Answer(host_.machine());
      const std::lock_guard inner(mutex_);
      describes_.remove(call);
    });
    return reactor;
  }

 private:
  /// From gRPC's threads to the loop.
  class Inbox final : public NodeStream::Listener {
   public:
    Inbox(ServerImpl& server, std::shared_ptr<rpc::LoopGate> gate)
        : server_(server), gate_(std::move(gate)) {}

    void OnMessage(const std::shared_ptr<NodeStream>& from, Incoming message) override {
      gate_->Post([this, from, message = std::move(message)]() mutable {
        server_.OnMessage(from, std::move(message));
      });
    }

    void OnOver(const std::shared_ptr<NodeStream>& from, std::string why) override {
      gate_->Post([this, from, why = std::move(why)] { server_.OnOver(from, why); });
    }

   private:
    ServerImpl& server_;  // used behind the gate only
    const std::shared_ptr<rpc::LoopGate> gate_;
  };

  void OnOpened(const std::shared_ptr<NodeStream>& stream, const std::string& peer) {
    stream->seen_from = rpc::AddressOfPeer(peer);
    auto timer = std::make_unique<boost::asio::steady_timer>(loop_, kIntroduction);
    timer->async_wait([this, gate = gate_, stream](const boost::system::error_code& error) {
      if (!error && gate->is_open() && introductions_.erase(stream.get()) > 0) {
        OnOver(stream, "it connected and said nothing");
      }
    });
    introductions_[stream.get()] = std::move(timer);
    stream->ReadNext();
  }

  void OnMessage(const std::shared_ptr<NodeStream>& from, Incoming message) {
    introductions_.erase(from.get());
    if (const Status taken = sessions_.Take(from, std::move(message)); !taken.ok()) {
      return OnOver(from, taken.message());
    }
    from->ReadNext();
  }

  void OnOver(const std::shared_ptr<NodeStream>& from, const std::string& why) {
    introductions_.erase(from.get());
    sessions_.Broken(from, why);
    from->Finish();
  }

  boost::asio::io_context& loop_;
  RunHost& host_;
  const std::shared_ptr<rpc::LoopGate> gate_;
  const std::shared_ptr<Inbox> listener_;
  SessionWatch sessions_;
  std::map<const NodeStream*, std::unique_ptr<boost::asio::steady_timer>>
      introductions_;  ///< loop only
  int port_ = 0;

  std::mutex mutex_;  // before those of streams and gate; guards the next three
  bool closing_ = false;
  std::list<std::weak_ptr<NodeStream>> streams_;
  std::list<std::shared_ptr<DescribeCall>> describes_;

  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::Listen(boost::asio::io_context& loop,
                                                                   RunHost& host,
                                                                   const std::string& address,
                                                                   int port,
                                                                   const Trust& trust) {
  auto server = std::make_unique<ServerImpl>(loop, host, trust);
  LR_TRY(server->Listen(address, port, trust.plan));
  return std::unique_ptr<RendezvousServer>(std::move(server));
}

}  // namespace lr::launcher
