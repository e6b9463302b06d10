#include "launcher/rendezvous/run_host.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace lr::launcher {
namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::seconds kSettle{2};  ///< for the last message to reach everybody

bool IsLast(const HostMessage& message) {
  return std::holds_alternative<Closed>(message) || std::holds_alternative<Refused>(message);
}

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

RunHost::RunHost(boost::asio::io_context& loop,
                 RunRules rules,
                 RunTiming timing,
                 std::function<void(const std::string&)> note)
    : note_(std::move(note)),
      machine_(std::move(rules), timing, Now()),
      tick_(loop),
      settle_(loop) {}

Instant RunHost::Now() const {
  return std::chrono::steady_clock::now().time_since_epoch();
}

MemberId RunHost::Open(std::shared_ptr<NodeSink> sink, std::string seen_from, bool local) {
  const MemberId id = next_id_++;
  if (local) {
    local_sink_ = sink;
  }
  streams_[id] = {std::move(sink), std::move(seen_from), local};
  return id;
}

void RunHost::Receive(MemberId from, NodeMessage message) {
  const auto stream = streams_.find(from);
  if (stream == streams_.end()) {
    return;
  }
  if (const Beat* beat = std::get_if<Beat>(&message)) {
    stream->second.sink->Send(
        std::make_shared<const HostMessage>(BeatEcho{beat->sent_unix_ns, UnixNanoseconds()}));
  } else if (Hello* hello = std::get_if<Hello>(&message)) {
    hello->seen_from = stream->second.seen_from;
    hello->local = stream->second.local;
    ArmTimer();
  }
  Execute(machine_.Handle(from, message, Now()));
}

void RunHost::Note(MemberId member, const std::string& what) const {
  const std::string text = fmt::format("{} {}", machine_.NameOf(member), what);
  spdlog::debug("rendezvous: {}", text);
  if (note_) {
    note_(text);
  }
}

void RunHost::Lost(MemberId member, const std::string& why) {
  if (streams_.erase(member) > 0) {
    Execute(machine_.StreamLost(member, why, Now()));
  }
}

void RunHost::Execute(const RunActions& actions) {
  for (const RunAction& action : actions) {
    switch (action.kind) {
      case RunAction::Kind::kSend:
        Deliver(action.member, action.message);
        break;
      case RunAction::Kind::kDrop:
        if (const auto node = streams_.extract(action.member)) {
          node.mapped().sink->Finish();
        }
        break;
      case RunAction::Kind::kNote:
        spdlog::debug("rendezvous: {}", action.reason);
        if (note_) {
          note_(action.reason);
        }
        break;
    }
  }
  SettleIfDone();
}

void RunHost::Deliver(MemberId to, const SharedHostMessage& message) {
  const auto stream = streams_.find(to);
  if (stream == streams_.end()) {
    return;
  }
  if (stream->second.local && IsLast(*message)) {
    last_for_local_ = message;
    return;
  }
  stream->second.sink->Send(message);
  if (IsLast(*message)) {
    stream->second.sink->Finish();
  }
}

void RunHost::ArmTimer() {
  if (ticking_ || machine_.state() == RunState::kClosed) {
    return;
  }
  ticking_ = true;
  tick_.expires_after(kTick);
  tick_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired()) {
      return;
    }
    ticking_ = false;
    Execute(machine_.Tick(Now()));
    ArmTimer();
  });
}

bool RunHost::has_remote() const {
  return std::ranges::any_of(streams_, [](const auto& entry) { return !entry.second.local; });
}

void RunHost::SettleIfDone() {
  if (!last_for_local_) {
    return;
  }
  if (!has_remote()) {
    return DeliverLast();
  }
  if (!std::exchange(settling_, true)) {
    settle_.expires_after(kSettle);
    settle_.async_wait(
        [this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
          if (!error && !alive.expired()) {
            DeliverLast();
          }
        });
  }
}

void RunHost::DeliverLast() {
  tick_.cancel();
  settle_.cancel();
  const SharedHostMessage message = std::exchange(last_for_local_, nullptr);
  if (message && local_sink_) {
    local_sink_->Send(message);
    local_sink_->Finish();
  }
}

}  // namespace lr::launcher
