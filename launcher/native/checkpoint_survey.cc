#include "launcher/native/checkpoint_survey.h"

#include <thread>
#include <utility>

#include "common/base/blocked_signals.h"
#include "common/contract/checkpoint_scan.h"
#include "common/rpc/loop_gate.h"

namespace lr::launcher {
namespace {

CheckpointView Look(const std::string& output_dir) {
  Result<std::vector<CheckpointCandidate>> found = ListCheckpoints(output_dir);
  return found.ok() ? CheckpointView{"", std::move(found).value()}
                    : CheckpointView{found.status().message(), {}};
}

}  // namespace

CheckpointSurvey::CheckpointSurvey(boost::asio::io_context& loop)
    : gate_(std::make_shared<rpc::LoopGate>(loop)) {}

CheckpointSurvey::~CheckpointSurvey() {
  gate_->Close();
}

void CheckpointSurvey::List(const std::string& output_dir,
                            std::function<void(CheckpointView)> done) {
  const BlockedSignals blocked;  // they belong to the loop
  std::thread([gate = gate_, output_dir, done = std::move(done)]() mutable {
    gate->Post([view = Look(output_dir), done = std::move(done)] { done(view); });
  }).detach();
}

}  // namespace lr::launcher
