#include "launcher/rendezvous/trust.h"

#include "common/rpc/tls.h"

namespace lr::launcher {

Result<Trust> ReadTrust(const TrustPlan& plan, const std::string& host_name) {
  Trust trust{.token = nullptr, .plan = plan, .host_name = host_name};
  if (!plan.token_file.empty()) {
    LR_ASSIGN(RunToken token, RunToken::Read(plan.token_file));
    trust.token = std::make_shared<const RunToken>(std::move(token));
  }
  LR_TRY(rpc::CheckTls({.certificate = plan.tls_certificate,
                        .key = plan.tls_key,
                        .authorities = plan.tls_authorities,
                        .mutual = plan.tls_mutual})
             .WithContext("--rdzv-conf"));
  return trust;
}

}  // namespace lr::launcher
