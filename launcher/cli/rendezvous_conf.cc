#include "launcher/cli/rendezvous_conf.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;

constexpr int kLongestJoin = 86'400;  // seconds
constexpr int kMostAttempts = 1'000;

/// Keys that are a number of seconds of the rendezvous.
struct Limit {
  std::string_view key;
  milliseconds RendezvousTimes::*time;
};

constexpr std::array kLimits = std::to_array<Limit>({
    {"commit_timeout", &RendezvousTimes::commit},
    {"keep_alive_interval", &RendezvousTimes::heartbeat},
    {"suspect_timeout", &RendezvousTimes::suspect},
    {"lost_timeout", &RendezvousTimes::lost},
    {"last_call_timeout", &RendezvousTimes::last_call},
    {"reform_last_call_timeout", &RendezvousTimes::reform_last_call},
    {"host_lost_timeout", &RendezvousTimes::host_lost},
});

/// Keys that are a file.
struct File {
  std::string_view key;
  std::string TrustPlan::*file;
};

constexpr std::array kFiles = std::to_array<File>({
    {"tls_ca", &TrustPlan::tls_authorities},
    {"tls_cert", &TrustPlan::tls_certificate},
    {"tls_key", &TrustPlan::tls_key},
});

struct Unused {
  std::string_view key;
  std::string_view why;
};

constexpr std::array kUnused = std::to_array<Unused>({
    {"close_timeout", "every node is told at once"},
    {"heartbeat_timeout", "heartbeats travel on a standing stream; see lost_timeout"},
    {"read_timeout", "nothing is read from a store"},
    {"cas_backoff_max_seconds", "nothing is written to a store"},
    {"store_type", "there is no store"},
    {"use_libuv", "there is no store"},
});

std::vector<std::string> KnownKeys() {
  std::vector<std::string> keys = {
      "join_timeout", "timeout", "keep_alive_max_attempt", "is_host", "tls_mutual"};
  for (const File& file : kFiles) {
    keys.emplace_back(file.key);
  }
  for (const Limit& limit : kLimits) {
    keys.emplace_back(limit.key);
  }
  for (const Unused& unused : kUnused) {
    keys.emplace_back(unused.key);
  }
  return keys;
}

class Conf {
 public:
  Conf(std::string spelled, std::map<std::string, std::string> pairs)
      : spelled_(std::move(spelled)), pairs_(std::move(pairs)) {}

  Status Apply(EndpointPlan& endpoint, std::vector<std::string>& notes) const {
    LR_TRY(CheckKeys());
    LR_TRY(ApplyJoin(endpoint));
    LR_TRY(ApplyLimits(endpoint.times));
    LR_ASSIGN(endpoint.is_host, ReadTruth("is_host"));
    LR_TRY(ApplyTls(endpoint.trust));
    for (const Unused& unused : kUnused) {
      if (pairs_.contains(std::string(unused.key))) {
        notes.push_back(
            fmt::format("{}: {} has no effect here: {}", spelled_, unused.key, unused.why));
      }
    }
    return {};
  }

 private:
  std::string Named(std::string_view key) const { return fmt::format("{} ({})", spelled_, key); }

  Status CheckKeys() const {
    const std::vector<std::string> known = KnownKeys();
    for (const auto& [key, value] : pairs_) {
      if (std::ranges::find(known, key) == known.end()) {
        const std::optional<std::string> nearest = NearestName(key, known);
        return InvalidArgument("{}: unknown key {}{}",
                               spelled_,
                               key,
                               nearest ? ", did you mean " + *nearest + "?" : "");
      }
    }
    return {};
  }

  /// `timeout` is torchrun's older name.
  Status ApplyJoin(EndpointPlan& endpoint) const {
    for (const char* key : {"timeout", "join_timeout"}) {
      if (const auto found = pairs_.find(key); found != pairs_.end()) {
        LR_ASSIGN(const int seconds, ReadWhole(found->second, Named(key), 1, kLongestJoin));
        endpoint.join_timeout = std::chrono::seconds(seconds);
      }
    }
    return {};
  }

  /// A node is lost after so many missed heartbeats, unless lost_timeout says it in seconds.
  Status ApplyLimits(RendezvousTimes& times) const {
    if (const auto found = pairs_.find("keep_alive_max_attempt"); found != pairs_.end()) {
      LR_ASSIGN(const int attempts,
                ReadWhole(found->second, Named(found->first), 1, kMostAttempts));
      LR_TRY(Read("keep_alive_interval", times.heartbeat));
      times.lost = times.heartbeat * attempts;
      times.suspect = std::min(times.suspect, times.lost);
    }
    for (const Limit& limit : kLimits) {
      LR_TRY(Read(limit.key, times.*limit.time));
    }
    if (times.heartbeat >= times.lost || times.suspect > times.lost) {
      return InvalidArgument(
          "{}: a heartbeat every {} ms, suspect after {} ms, lost after {} ms: each must be below "
          "the next",
          spelled_,
          times.heartbeat.count(),
          times.suspect.count(),
          times.lost.count());
    }
    return {};
  }

  Status Read(std::string_view key, milliseconds& time) const {
    const auto found = pairs_.find(std::string(key));
    if (found == pairs_.end()) {
      return {};
    }
    LR_ASSIGN(time, ReadSeconds(found->second, Named(key)));
    if (time < milliseconds(100)) {
      return InvalidArgument("{}: must be at least 0.1 s", Named(key));
    }
    return {};
  }

  Status ApplyTls(TrustPlan& trust) const {
    for (const File& file : kFiles) {
      if (const auto found = pairs_.find(std::string(file.key)); found != pairs_.end()) {
        trust.*file.file = found->second;
      }
    }
    LR_ASSIGN(const std::optional<bool> mutual, ReadTruth("tls_mutual"));
    trust.tls_mutual = mutual.value_or(false);
    const bool any = !trust.tls_certificate.empty() || !trust.tls_key.empty() || mutual;
    if (any && trust.tls_authorities.empty()) {
      return InvalidArgument(
          "{}: TLS needs tls_ca, the authorities that the other nodes' "
          "certificates come from",
          spelled_);
    }
    if (trust.tls_certificate.empty() != trust.tls_key.empty() ||
        (trust.tls_mutual && trust.tls_certificate.empty())) {
      return InvalidArgument("{}: tls_cert and tls_key are missing or belong together", spelled_);
    }
    return {};
  }

  /// In torchrun's words for a truth value.
  Result<std::optional<bool>> ReadTruth(const std::string& key) const {
    const auto found = pairs_.find(key);
    if (found == pairs_.end()) {
      return std::optional<bool>();
    }
    for (const char* word : {"1", "true", "True", "t", "yes", "y"}) {
      if (found->second == word) {
        return std::optional(true);
      }
    }
    LR_TRY(CheckWord(found->second, Named(key), {"0", "false", "False", "f", "no", "n"}));
    return std::optional(false);
  }

  const std::string spelled_;
  const std::map<std::string, std::string> pairs_;
};

}  // namespace

Status ApplyRendezvousConf(const CommandLine& line,
                           EndpointPlan& endpoint,
                           std::vector<std::string>& notes) {
  const std::string spelled = line.spelled(Option::kRdzvConf);
  LR_ASSIGN(auto pairs, ReadKeyValues(line.text(Option::kRdzvConf), spelled));
  return Conf(spelled, std::move(pairs)).Apply(endpoint, notes);
}

}  // namespace lr::launcher
