#pragma once
/// The secret that the nodes of a run share
/// . It is never sent: each side shows that it has it by a MAC over what both sides chose for
/// this connection and the run's id. Any thread.

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace lr::launcher {

class RunToken {
 public:
  /// From a file of 32 to 4096 bytes, without the white space around; INVALID_ARGUMENT names the
  /// file.
  static Result<RunToken> Read(const std::string& path);

  explicit RunToken(std::string secret) : secret_(std::move(secret)) {}

  enum class Side { kHost, kNode };

  /// HMAC-SHA256 over the side, both nonces and the run id, each with its length.
  std::string Prove(Side side,
                    std::string_view node_nonce,
                    std::string_view host_nonce,
                    std::string_view run_id) const;

  /// Takes the same time wherever the difference is.
  bool Check(std::string_view proof,
             Side side,
             std::string_view node_nonce,
             std::string_view host_nonce,
             std::string_view run_id) const;

 private:
  std::string secret_;
};

/// 256 random bits.
std::string MakeNonce();

}  // namespace lr::launcher
