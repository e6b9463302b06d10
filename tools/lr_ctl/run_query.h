#pragma once
/// How a run stands: from its running lr-launch, or from its record on disk when nobody answers.
/// Blocks up to the limit given; one thread.

#include <chrono>
#include <memory>
#include <string>

#include "proto/lr/v1/run.grpc.pb.h"

#include "common/io/json.h"
#include "tools/lr_ctl/run_finder.h"

namespace lr {

struct RunView {
  Json record;          ///< run.json with "state", "directory" and the native "workers"
  std::string trouble;  ///< why this is only the record on disk; empty: it is not, or need not be
};

std::unique_ptr<v1::RunControl::Stub> ConnectTo(const FoundRun& run);

RunView QueryRun(const FoundRun& run, std::chrono::seconds limit = std::chrono::seconds(5));

}  // namespace lr
