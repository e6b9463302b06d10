#include "common/rpc/tls.h"

#include <fstream>
#include <iterator>
#include <utility>

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace lr::rpc {
namespace {

constexpr unsigned kRefresh = 10;              // seconds
constexpr std::streamsize kLargest = 1 << 20;  // bytes

Result<std::string> ReadPem(const std::string& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return InvalidArgument("the {} '{}' cannot be read", what, path);
  }
  std::string text(static_cast<size_t>(kLargest), '\0');
  file.read(text.data(), kLargest);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.find("-----BEGIN ") == std::string::npos) {
    return InvalidArgument("the {} '{}' is no PEM file", what, path);
  }
  return text;
}

struct Pem {
  std::string certificate;
  std::string key;
  std::string authorities;
};

Result<Pem> ReadAll(const TlsFiles& files) {
  Pem pem;
  LR_ASSIGN(pem.authorities, ReadPem(files.authorities, "file of authorities (tls_ca)"));
  if (files.certificate.empty() != files.key.empty()) {
    return InvalidArgument("tls_cert and tls_key belong together");
  }
  if (!files.certificate.empty()) {
    LR_ASSIGN(pem.certificate, ReadPem(files.certificate, "certificate (tls_cert)"));
    LR_ASSIGN(pem.key, ReadPem(files.key, "key (tls_key)"));
  }
  return pem;
}

}  // namespace

Status CheckTls(const TlsFiles& files) {
  return files.any() ? ReadAll(files).status() : Status();
}

Result<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(const TlsFiles& files) {
  if (!files.any()) {
    return std::shared_ptr<grpc::ChannelCredentials>();
  }
  LR_ASSIGN(Pem pem, ReadAll(files));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = std::move(pem.authorities);
  options.pem_cert_chain = std::move(pem.certificate);
  options.pem_private_key = std::move(pem.key);
  return grpc::SslCredentials(options);
}

Result<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files) {
  if (!files.any()) {
    return grpc::InsecureServerCredentials();
  }
  LR_TRY(CheckTls(files));
  if (files.certificate.empty()) {
    return InvalidArgument("this node serves, and needs tls_cert and tls_key for that");
  }
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authorities, kRefresh);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_cert_request_type(files.mutual
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace lr::rpc
