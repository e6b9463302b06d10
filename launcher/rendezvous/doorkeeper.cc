#include "launcher/rendezvous/doorkeeper.h"

#include <fmt/format.h>

#include "common/contract/exit_codes.h"

namespace lr::launcher {
namespace {

constexpr size_t kMostWrong = 5;  ///< per minute and address (R-50)
constexpr std::chrono::minutes kMemory{1};
constexpr size_t kMostAddresses = 10'000;

Refused WrongToken(std::string text) {
  return {RefusalCode::kWrongToken, kExitPermission, std::move(text)};
}

}  // namespace

Doorkeeper::Challenge Doorkeeper::Ask(const std::string& node_nonce) const {
  std::string nonce = MakeNonce();
  std::string proof = token_->Prove(RunToken::Side::kHost, node_nonce, nonce, run_id_);
  return {std::move(nonce), std::move(proof)};
}

std::optional<Refused> Doorkeeper::Judge(const std::string& proof,
                                         const std::string& node_nonce,
                                         const std::string& host_nonce,
                                         const std::string& address,
                                         Instant now) {
  std::erase_if(wrong_, [&](const auto& entry) { return now - entry.second.back() > kMemory; });
  const auto known = wrong_.find(address);
  if (known != wrong_.end()) {
    std::deque<Instant>& times = known->second;
    while (times.size() > 1 && now - times.front() > kMemory) {
      times.pop_front();
    }
    if (times.size() >= kMostWrong) {
      return WrongToken(
          fmt::format("wrong token: {} tries from {} within a minute are enough; try again later",
                      times.size(),
                      address));
    }
  }
  if (token_->Check(proof, RunToken::Side::kNode, node_nonce, host_nonce, run_id_)) {
    return std::nullopt;
  }
  if (known != wrong_.end() || wrong_.size() < kMostAddresses) {
    wrong_[address].push_back(now);
  }
  return WrongToken(
      fmt::format("wrong token: the run '{}' is protected by another --rdzv-token-file than that "
                  "of the node at {}",
                  run_id_,
                  address));
}

Refused Doorkeeper::NobodyHasToken(const std::string& run_id) {
  return WrongToken(fmt::format(
      "the host of run '{}' has no --rdzv-token-file, but this node has; start every node with it",
      run_id));
}

std::variant<std::string, Refused> AnswerChallenge(const RunToken* token,
                                                   const Doorkeeper::Challenge& challenge,
                                                   const std::string& node_nonce,
                                                   const std::string& run_id,
                                                   const std::string& host) {
  if (token == nullptr) {
    return WrongToken(fmt::format(
        "the run '{}' is protected: give this node the --rdzv-token-file of the others", run_id));
  }
  if (!token->Check(challenge.proof, RunToken::Side::kHost, node_nonce, challenge.nonce, run_id)) {
    return WrongToken(
        fmt::format("wrong token: the host of run '{}' at {} has another one than the "
                    "--rdzv-token-file of this node",
                    run_id,
                    host));
  }
  return token->Prove(RunToken::Side::kNode, node_nonce, challenge.nonce, run_id);
}

}  // namespace lr::launcher
