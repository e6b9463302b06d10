#pragma once
/// What protects the rendezvous of a run (3.8), read once from the files that the plan names. Plain
/// data, shared by host and node.

#include <memory>
#include <string>

#include "launcher/plan/launch_plan.h"
#include "launcher/rendezvous/run_token.h"

namespace lr::launcher {

struct Trust {
  std::shared_ptr<const RunToken> token;  ///< null: none
  TrustPlan plan;                         ///< the files of TLS are read with each connection
  std::string host_name;                  ///< the endpoint as given: a host's certificate names it
};

/// INVALID_ARGUMENT names the file that cannot be used.
Result<Trust> ReadTrust(const TrustPlan& plan, const std::string& host_name);

}  // namespace lr::launcher
