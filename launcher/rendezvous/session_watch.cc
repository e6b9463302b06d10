#include "launcher/rendezvous/session_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/contract/exit_codes.h"

namespace lr::launcher {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kProbeLimit{3};
constexpr std::chrono::milliseconds kFirstPause{20};  ///< a process that dies still closes sockets
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr std::chrono::seconds kKeepFinished{30};  ///< for a node that did not get its last words

}  // namespace

Status SessionWatch::Take(const std::shared_ptr<NodeStream>& stream, Incoming message) {
  if (stream->trusted) {
    return TakeTrusted(stream, std::move(message));
  }
  if (doorkeeper_.asks()) {
    return AskForToken(stream, std::move(message));
  }
  const auto* words = std::get_if<NodeMessage>(&message.body);
  const Hello* hello = words == nullptr ? nullptr : std::get_if<Hello>(words);
  if (hello != nullptr && !message.nonce.empty() &&
      hello->identity.run_id == host_.machine().run_id()) {
    Refuse(stream, Doorkeeper::NobodyHasToken(hello->identity.run_id));
    return {};
  }
  stream->trusted = true;
  return TakeTrusted(stream, std::move(message));
}

Status SessionWatch::AskForToken(const std::shared_ptr<NodeStream>& stream, Incoming message) {
  if (!stream->first) {
    const Doorkeeper::Challenge challenge = doorkeeper_.Ask(message.nonce);
    stream->challenge = challenge.nonce;
    stream->first = std::move(message);
    stream->Send(EncodeChallenge(challenge, host_.machine().run_id()));
    return {};
  }
  const TokenProof* proof = std::get_if<TokenProof>(&message.body);
  if (proof == nullptr) {
    return InvalidArgument("it does not answer the question for the token");
  }
  const auto refused = doorkeeper_.Judge(proof->proof,
                                         stream->first->nonce,
                                         stream->challenge,
                                         stream->seen_from,
                                         steady_clock::now());
  if (refused) {
    host_.Note(0, fmt::format("at {} is refused: {}", stream->seen_from, refused->text));
    Refuse(stream, *refused);
    return {};
  }
  stream->trusted = true;
  Incoming first = *std::exchange(stream->first, std::nullopt);
  return TakeTrusted(stream, std::move(first));
}

void SessionWatch::Refuse(const std::shared_ptr<NodeStream>& stream, const Refused& refused) {
  const auto message = std::make_shared<const HostMessage>(refused);
  stream->Send(grpc::ByteBuffer(&encoder_->Encode(message), 1));
  stream->Finish();
}

Status SessionWatch::TakeTrusted(const std::shared_ptr<NodeStream>& stream, Incoming message) {
  if (std::holds_alternative<TokenProof>(message.body)) {
    return InvalidArgument("it proves what was not asked");
  }
  if (std::holds_alternative<Resume>(message.body)) {
    return GoOn(stream, message);
  }
  if (!stream->session) {
    return Begin(stream, std::move(message));
  }
  const std::shared_ptr<NodeSession> session = stream->session;
  LR_ASSIGN(const Arrival arrival, session->Take(message.envelope));
  if (arrival == Arrival::kNext) {
    host_.Receive(session->id, std::get<NodeMessage>(std::move(message.body)));
  }
  if (session->full()) {
    return ResourceExhausted("{} messages wait for it: it does not read", SentMessages<int>::kMost);
  }
  return {};
}

/// The first words of a node.
Status SessionWatch::Begin(const std::shared_ptr<NodeStream>& stream, Incoming message) {
  auto& words = std::get<NodeMessage>(message.body);
  const Hello* hello = std::get_if<Hello>(&words);
  if (hello == nullptr) {
    return InvalidArgument("it did not introduce itself");
  }
  const auto session = std::make_shared<NodeSession>(loop_, encoder_, stream, *hello);
  const auto [place, is_new] =
      sessions_.try_emplace({hello->identity.node_id, message.session}, session);
  if (!is_new) {
    return InvalidArgument("it introduced itself twice");
  }
  stream->session = session;
  session->id = host_.Open(session, stream->seen_from, false);
  LR_TRY(session->Take(message.envelope).status());
  LookAtLivePort(session);
  host_.Receive(session->id, std::move(words));
  return {};
}

void SessionWatch::LookAtLivePort(const std::shared_ptr<NodeSession>& session) {
  if (session->live_port == 0) {
    return;
  }
  session->probe = std::make_unique<ReachProbe>(
      loop_,
      session->seen_from,
      session->live_port,
      kProbeLimit,
      [session = std::weak_ptr(session)](const ReachAnswer& answer) {
        if (const auto alive = session.lock()) {
          alive->live_port_seen =
              alive->stream() != nullptr && answer.kind == ReachAnswer::Kind::kConnected;
        }
      });
}

Status SessionWatch::GoOn(const std::shared_ptr<NodeStream>& stream, const Incoming& message) {
  const Resume& resume = std::get<Resume>(message.body);
  const auto found = sessions_.find({resume.node_id, resume.session});
  if (stream->session || found == sessions_.end()) {
    Refuse(stream,
           {RefusalCode::kClosed,
            kExitRendezvousRefused,
            "the host goes on without this node, which it has given up meanwhile"});
    return {};
  }
  const std::shared_ptr<NodeSession> session = found->second;
  if (const std::shared_ptr<NodeStream> old = session->stream()) {  // we have not noticed yet
    old->session.reset();
    session->Detach();
    old->Cut();
    session->broken_since = steady_clock::now();
    session->broken_why = "it connected anew";
  }
  stream->session = session;
  if (!session->Resume(stream, message.envelope.received)) {
    return InvalidArgument("it confirms what was never sent");
  }
  host_.Note(session->id,
             fmt::format(
                 "is connected again after {:.1f} s ({})",
                 std::chrono::duration<double>(steady_clock::now() - session->broken_since).count(),
                 session->broken_why));
  return {};
}

void SessionWatch::Broken(const std::shared_ptr<NodeStream>& stream, const std::string& why) {
  const std::shared_ptr<NodeSession> session = std::exchange(stream->session, nullptr);
  if (!session) {
    return;
  }
  session->Detach();
  session->broken_why = why;
  session->broken_since = steady_clock::now();
  session->pause = kFirstPause;
  if (session->live_port == 0) {
    return End(session, why);
  }
  if (session->finished()) {
    host_.Lost(session->id, why);  // nobody waits for it any more
  }
  Watch(session);
}

void SessionWatch::Watch(const std::shared_ptr<NodeSession>& session) {
  session->probe = std::make_unique<ReachProbe>(
      loop_,
      session->seen_from,
      session->live_port,
      kProbeLimit,
      [this, watch = std::weak_ptr(alive_), weak = std::weak_ptr(session)](
          const ReachAnswer& answer) {
        const std::shared_ptr<NodeSession> alive = weak.lock();
        if (watch.expired() || !alive || alive->stream()) {
          return;
        }
        if (answer.kind == ReachAnswer::Kind::kRefused && alive->live_port_seen) {
          return End(alive, fmt::format("{}; its launcher is gone", alive->broken_why));
        }
        WatchAgain(alive);
      });
}

void SessionWatch::WatchAgain(const std::shared_ptr<NodeSession>& session) {
  if (session->finished() && steady_clock::now() - session->broken_since > kKeepFinished) {
    return End(session, session->broken_why);
  }
  session->timer.expires_after(session->pause);
  session->pause = std::min(session->pause * 2, kLongestPause);
  session->timer.async_wait([this, watch = std::weak_ptr(alive_), weak = std::weak_ptr(session)](
                                const boost::system::error_code& error) {
    const std::shared_ptr<NodeSession> alive = error ? nullptr : weak.lock();
    if (!watch.expired() && alive && !alive->stream()) {
      Watch(alive);
    }
  });
}

void SessionWatch::End(const std::shared_ptr<NodeSession>& session, const std::string& why) {
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second == session; });
  session->timer.cancel();
  host_.Lost(session->id, why);
}

}  // namespace lr::launcher
