#include "launcher/rendezvous/run_token.h"

#include <array>
#include <fstream>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "common/base/check.h"
#include "common/base/text.h"

namespace lr::launcher {
namespace {

constexpr size_t kShortest = 32;
constexpr size_t kLongest = 4096;
constexpr size_t kNonce = 32;

}  // namespace

Result<RunToken> RunToken::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return InvalidArgument("the token file '{}' cannot be read", path);
  }
  std::string text(kLongest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::string secret(Trim(text));
  if (text.size() > kLongest || secret.size() < kShortest) {
    return InvalidArgument(
        "the token file '{}' has {} bytes, not {} to {}; `openssl rand -hex 32` "
        "makes one",
        path,
        secret.size(),
        kShortest,
        kLongest);
  }
  return RunToken(std::move(secret));
}

std::string RunToken::Prove(Side side,
                            std::string_view node_nonce,
                            std::string_view host_nonce,
                            std::string_view run_id) const {
  std::string text = side == Side::kHost ? "lr rendezvous host" : "lr rendezvous node";
  for (const std::string_view part : {node_nonce, host_nonce, run_id}) {
    text += fmt::format(":{}:{}", part.size(), part);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned size = 0;
  const unsigned char* made = HMAC(EVP_sha256(),
                                   secret_.data(),
                                   static_cast<int>(secret_.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size(),
                                   mac.data(),
                                   &size);
  LR_CHECK(made != nullptr, "libcrypto has no HMAC-SHA256");
  return {reinterpret_cast<const char*>(mac.data()), size};
}

bool RunToken::Check(std::string_view proof,
                     Side side,
                     std::string_view node_nonce,
                     std::string_view host_nonce,
                     std::string_view run_id) const {
  const std::string expected = Prove(side, node_nonce, host_nonce, run_id);
  return proof.size() == expected.size() &&
         CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

std::string MakeNonce() {
  std::string nonce(kNonce, '\0');
  LR_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), kNonce) == 1,
           "libcrypto has no random bytes");
  return nonce;
}

}  // namespace lr::launcher
