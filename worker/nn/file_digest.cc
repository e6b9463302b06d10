// SHA-256 on OpenSSL's implementation.
#include "worker/nn/file_digest.h"

#include <array>
#include <fstream>
#include <memory>
#include <openssl/evp.h>
#include <vector>

namespace lr::worker {

namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    LR_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
             "OpenSSL has no SHA-256");
  }

  void Add(const void* data, size_t size) {
    LR_CHECK(EVP_DigestUpdate(context_.get(), data, size) == 1, "SHA-256 failed");
  }

  std::string Hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned int size = 0;
    LR_CHECK(EVP_DigestFinal_ex(context_.get(), raw.data(), &size) == 1, "SHA-256 failed");
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
      hex += fmt::format("{:02x}", raw[i]);
    }
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string Sha256(const void* data, size_t size) {
  Digest digest;
  digest.Add(data, size);
  return digest.Hex();
}

Result<std::string> Sha256OfFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return NotFound("cannot open '{}'", path.string());
  }
  Digest digest;
  std::vector<char> piece(size_t{1} << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    digest.Add(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) {
    return DataLoss("cannot read '{}' to its end", path.string());
  }
  return digest.Hex();
}

}  // namespace lr::worker
