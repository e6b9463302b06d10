#include "launcher/rendezvous/remote_link.h"

#include <algorithm>
#include <random>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <spdlog/spdlog.h>

#include "proto/lr/v1/rendezvous.pb.h"

#include "common/contract/exit_codes.h"
#include "common/rpc/loop_gate.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport.h"
#include "launcher/rendezvous/back_off.h"
#include "launcher/rendezvous/doorkeeper.h"
#include "launcher/rendezvous/endpoint_choice.h"
#include "launcher/rendezvous/host_stream.h"
#include "launcher/rendezvous/reach_probe.h"
#include "launcher/rendezvous/sequence.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kConnectLimit{3};
constexpr std::chrono::milliseconds kResumeLimit{
    5000};  ///< from the connection to the host's answer

uint64_t RandomKey() {
  std::random_device device;
  return std::uniform_int_distribution<uint64_t>(1)(device);
}

class RemoteLink final : public HostLink {
 public:
  RemoteLink(boost::asio::io_context& loop,
             const std::string& host,
             int port,
             Events events,
             RemoteOptions options)
      : loop_(loop),
        host_(host),
        port_(port),
        options_(std::move(options)),
        events_(std::make_shared<Events>(std::move(events))),
        timer_(loop) {
    Connect(kConnectLimit);
  }

  ~RemoteLink() override {
    gate_->Close();
    if (stream_) {
      stream_->Close();
    }
  }

  void Send(NodeMessage message) override {
    if (over_) {
      return;
    }
    v1::NodeMessage wire = ToWire(message);
    if (wire.has_hello()) {
      node_id_ = wire.hello().node_id();
      run_id_ = wire.hello().run_id();
      wire.mutable_hello()->set_session(key_);
      wire.mutable_hello()->set_nonce(nonce_);
    }
    const uint64_t number = sent_.Add(wire);
    if (sent_.full()) {
      return OverLater(fmt::format("{} messages wait for it: it does not read",
                                   SentMessages<v1::NodeMessage>::kMost));
    }
    if (state_ != State::kBroken) {
      Write(std::move(wire), number);
    }
  }

 private:
  enum class State {
    kNew,     ///< nothing was heard of the host yet
    kUp,      ///< messages go both ways
    kBroken,  ///< the next connection is being sought, or the host has not answered it
  };

  /// From gRPC's threads to the loop; one per connection, and it is closed with it.
  class Inbox final : public HostStream::Listener {
   public:
    Inbox(RemoteLink& link, std::shared_ptr<rpc::LoopGate> gate)
        : link_(link), gate_(std::move(gate)) {}

    void OnConnected() override {
      gate_->Post([this] { link_.OnConnected(); });
    }

    void OnMessage(const v1::HostMessage& wire) override {
      const Envelope envelope = TakeEnvelope(wire);
      if (wire.has_resumed()) {
        return gate_->Post([this, envelope] { link_.OnResumed(envelope); });
      }
      if (wire.has_challenge()) {
        return gate_->Post([this, challenge = wire.challenge()] { link_.OnChallenge(challenge); });
      }
      Result<HostMessage> message = FromWire(wire);
      if (!message.ok()) {
        return gate_->Post([this, why = message.status().message()] { link_.OnUnusable(why); });
      }
      gate_->Post([this, envelope, message = std::move(message).value()] {
        link_.OnMessage(envelope, message);
      });
    }

    void OnOver(bool ended, std::string why) override {
      gate_->Post([this, ended, why = std::move(why)] { link_.OnOver(ended, why); });
    }

   private:
    RemoteLink& link_;  // used behind the gate only
    const std::shared_ptr<rpc::LoopGate> gate_;
  };

  std::string target() const { return HostPort(host_, port_); }

  // ---- connections

  void Connect(std::chrono::milliseconds limit) {
    gate_ = std::make_shared<rpc::LoopGate>(loop_);
    const TrustPlan& trust = options_.trust.plan;
    auto credentials = rpc::ClientCredentials({.certificate = trust.tls_certificate,
                                               .key = trust.tls_key,
                                               .authorities = trust.tls_authorities});
    if (!credentials.ok()) {
      return OverLater(credentials.status().message());
    }
    proven_ = false;
    awaited_ = true;
    nonce_ = options_.trust.token ? MakeNonce() : "";
    stream_ = HostStream::Make(rpc::TcpTarget(host_, port_),
                               {*std::move(credentials), options_.trust.host_name},
                               std::make_shared<Inbox>(*this, gate_));
    timer_.expires_after(limit);
    timer_.async_wait([this, gate = gate_, limit](const error_code& error) {
      if (!error && gate->is_open() && awaited_) {
        OnOver(
            false,
            fmt::format("no answer within {:.4g} s", std::chrono::duration<double>(limit).count()));
      }
    });
    stream_->Begin();
  }

  void Disconnect() {
    gate_->Close();
    timer_.cancel();
    if (stream_) {
      std::exchange(stream_, nullptr)->Close();
    }
  }

  void Write(v1::NodeMessage message, uint64_t number) {
    if (stream_) {
      PutEnvelope({number, received_.last()}, message);
      stream_->Send(std::move(message));
    }
  }

  /// A handler of its own, so that a caller is never called back from inside Send().
  void OverLater(std::string why) {
    boost::asio::post(loop_, [this, alive = std::weak_ptr(alive_), why = std::move(why)] {
      if (!alive.expired()) {
        Over(why);
      }
    });
  }

  // ---- what a connection says

  void OnConnected() {
    if (state_ == State::kNew) {
      awaited_ = false;
      timer_.cancel();
    }
  }

  /// The host has a token, and says so first; nothing else is heard without a proof of ours.
  void OnChallenge(const v1::HostChallenge& challenge) {
    if (challenge.run_id() != run_id_) {
      return Refuse({RefusalCode::kWrongRun,
                     kExitRendezvousRefused,
                     fmt::format("wrong run: {} serves run '{}'", target(), challenge.run_id())});
    }
    const auto answer = AnswerChallenge(options_.trust.token.get(),
                                        {challenge.nonce(), challenge.proof()},
                                        nonce_,
                                        run_id_,
                                        target());
    if (const Refused* refused = std::get_if<Refused>(&answer)) {
      return Refuse(*refused);
    }
    proven_ = true;
    v1::NodeMessage proof;
    proof.mutable_proof()->set_proof(std::get<std::string>(answer));
    Write(std::move(proof), 0);
    stream_->ReadNext();
  }

  void Refuse(const Refused& refused) {
    if (state_ == State::kBroken) {
      return Over(refused.text);
    }
    over_ = true;
    const std::shared_ptr<Events> events = events_;
    events->message(refused);
  }

  /// A node with a token believes nobody without; a refusal needs no belief.
  bool Believes(bool refusal) const {
    return options_.trust.token == nullptr || proven_ || refusal;
  }

  /// The receiver may destroy this link: nothing of it is touched afterwards.
  void OnMessage(const Envelope& envelope, const HostMessage& message) {
    if (over_) {
      return;
    }
    const auto* refused = std::get_if<Refused>(&message);
    if (refused != nullptr && envelope.number == 0) {
      return Refuse(*refused);  // at the door, before there is a stream
    }
    if (!Believes(refused != nullptr)) {
      return OnUnusable("it does not ask for the token");
    }
    if (state_ == State::kBroken) {
      return OnUnusable("it answers without resuming");
    }
    if (!sent_.Confirm(envelope.received)) {
      return OnUnusable("it confirms what was never sent");
    }
    state_ = State::kUp;
    const Arrival arrival = received_.Take(envelope.number);
    if (arrival == Arrival::kGap) {
      return OnUnusable("a message before it is missing");
    }
    const std::shared_ptr<HostStream> stream = stream_;
    const std::shared_ptr<rpc::LoopGate> gate = gate_;
    const std::shared_ptr<Events> events = events_;
    if (arrival == Arrival::kNext) {
      events->message(message);
    }
    if (gate->is_open()) {
      stream->ReadNext();
    }
  }

  void OnUnusable(const std::string& why) {
    Over(fmt::format("the host sent something unusable: {}", why));
  }

  void OnOver(bool ended, const std::string& why) {
    if (over_ || state_ == State::kNew || ended) {
      return Over(why);
    }
    if (state_ == State::kUp) {
      broken_since_ = steady_clock::now();
      broken_why_ = why;
      back_off_.Reset();
      spdlog::debug("the connection to {} broke: {}", target(), why);
    }
    state_ = State::kBroken;
    Disconnect();
    SeekAfter(back_off_.Next(std::uniform_real_distribution<double>(0.0, 1.0)(random_)));
  }

  // ---- broken

  void SeekAfter(std::chrono::milliseconds pause) {
    if (steady_clock::now() + pause - broken_since_ >= options_.resume_within) {
      return Over(fmt::format("{}, and it did not come back within {:.4g} s",
                              broken_why_,
                              std::chrono::duration<double>(options_.resume_within).count()));
    }
    timer_.expires_after(pause);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](const error_code& error) {
      if (!error && !alive.expired()) {
        Seek();
      }
    });
  }

  void Seek() {
    probe_ = std::make_unique<ReachProbe>(
        loop_, host_, port_, kConnectLimit, [this](const ReachAnswer& answer) {
          OnAnswer(answer);
        });
  }

  void OnAnswer(const ReachAnswer& answer) {
    switch (answer.kind) {
      case ReachAnswer::Kind::kRefused:
        return Over(fmt::format("{}, and nobody serves there any more", broken_why_));
      case ReachAnswer::Kind::kSilent:
        return SeekAfter(back_off_.Next(0.999));
      case ReachAnswer::Kind::kConnected:
        break;
    }
    const auto left = options_.resume_within - (steady_clock::now() - broken_since_);
    Connect(std::clamp(std::chrono::ceil<std::chrono::milliseconds>(left),
                       std::chrono::milliseconds(100),
                       kResumeLimit));
    v1::NodeMessage resume;
    resume.mutable_resume()->set_node_id(node_id_);
    resume.mutable_resume()->set_session(key_);
    resume.mutable_resume()->set_nonce(nonce_);
    Write(std::move(resume), 0);
  }

  void OnResumed(const Envelope& envelope) {
    if (over_ || state_ != State::kBroken || !Believes(false) ||
        !sent_.Confirm(envelope.received)) {
      return OnUnusable("it resumes what was not broken");
    }
    timer_.cancel();
    awaited_ = false;
    state_ = State::kUp;
    spdlog::debug("the connection to {} stands again after {:.1f} s",
                  target(),
                  std::chrono::duration<double>(steady_clock::now() - broken_since_).count());
    sent_.ForEach(
        [this](const v1::NodeMessage& message, uint64_t number) { Write(message, number); });
    stream_->ReadNext();
  }

  void Over(const std::string& why) {
    timer_.cancel();
    if (!std::exchange(over_, true)) {
      const std::shared_ptr<Events> events = events_;
      events->lost(fmt::format("{}: {}", target(), why));
    }
  }

  boost::asio::io_context& loop_;
  const std::string host_;
  const int port_;
  const RemoteOptions options_;
  const std::shared_ptr<Events> events_;
  const uint64_t key_ = RandomKey();
  std::string nonce_;  ///< of this connection, with a token
  std::string node_id_;
  std::string run_id_;
  bool awaited_ = false;  ///< the connection, while there is a limit; the timer may ring late
  bool proven_ = false;   ///< the host of this connection has the token
  std::shared_ptr<rpc::LoopGate> gate_;  ///< of the connection
  std::shared_ptr<HostStream> stream_;
  State state_ = State::kNew;
  SentMessages<v1::NodeMessage> sent_;
  ReceivedMessages received_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<ReachProbe> probe_;
  BackOff back_off_;
  std::minstd_rand random_{std::random_device{}()};
  steady_clock::time_point broken_since_;
  std::string broken_why_;
  bool over_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<HostLink> MakeRemoteLink(boost::asio::io_context& loop,
                                         const std::string& host,
                                         int port,
                                         HostLink::Events events,
                                         RemoteOptions options) {
  return std::make_unique<RemoteLink>(loop, host, port, std::move(events), std::move(options));
}

}  // namespace lr::launcher
