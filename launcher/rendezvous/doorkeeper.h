#pragma once
/// Who may speak to the host (3.8): asks a node that introduces itself, or comes back, for a proof
/// of the run's token before anything else is heard of it, and shows its own. Decides alone; the
/// answer is what to send and whether to go on. Wrong proofs are limited per address.
/// Loop-confined; owned by the SessionWatch.

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/run_token.h"

namespace lr::launcher {

class Doorkeeper {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  struct Challenge {
    std::string nonce;
    std::string proof;  ///< the host's
  };

  Doorkeeper(std::optional<RunToken> token, std::string run_id)
      : token_(std::move(token)), run_id_(std::move(run_id)) {}

  bool asks() const { return token_.has_value(); }

  Challenge Ask(const std::string& node_nonce) const;

  /// nullopt: welcome.
  std::optional<Refused> Judge(const std::string& proof,
                               const std::string& node_nonce,
                               const std::string& host_nonce,
                               const std::string& address,
                               Instant now);

  /// A node with a token, and this host has none.
  static Refused NobodyHasToken(const std::string& run_id);

 private:
  const std::optional<RunToken> token_;
  const std::string run_id_;
  std::map<std::string, std::deque<Instant>> wrong_;  ///< of the last minute, by address
};

/// The node's side: its proof for a host that asked, or why it does not take part. `token` may be
/// null; `host` names the place for people.
std::variant<std::string, Refused> AnswerChallenge(const RunToken* token,
                                                   const Doorkeeper::Challenge& challenge,
                                                   const std::string& node_nonce,
                                                   const std::string& run_id,
                                                   const std::string& host);

}  // namespace lr::launcher
