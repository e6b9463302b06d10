#pragma once
/// TLS for a channel or server of ours from files in PEM form: a certificate with its key,
/// and the authorities that the other side's certificate must come from. Any thread. Files are read
/// when a channel is opened, and by a server again every few seconds, so that renewed certificates
/// need no restart. Fails with INVALID_ARGUMENT, naming the file.

#include <memory>
#include <string>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "common/base/status.h"

namespace lr::rpc {

struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authorities;
  bool mutual = false;  ///< a server: clients must show a certificate, too

  bool any() const { return !certificate.empty() || !key.empty() || !authorities.empty(); }
};

/// Whether the files are there and look like what they should be; for an error before anything is
/// started.
Status CheckTls(const TlsFiles& files);

/// nullptr when `files` is empty.
Result<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(const TlsFiles& files);

/// Insecure when `files` is empty.
Result<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files);

}  // namespace lr::rpc
