#pragma once
/// What this node sees below the output directory of a run, for the choice of the checkpoint to go
/// on from (resume_choice.h). Listing may take long on a shared file system, so each call has a
/// thread of its own; one that hangs there is left behind, and its answer never comes: the host's
/// limit then counts this node as lost. Owned by main(), loop-confined.

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "launcher/plan/resume_choice.h"

namespace lr::rpc {
class LoopGate;
}  // namespace lr::rpc

namespace lr::launcher {

class CheckpointSurvey {
 public:
  /// `loop` must outlive the survey.
  explicit CheckpointSurvey(boost::asio::io_context& loop);
  ~CheckpointSurvey();

  /// `done` is called on the loop, unless the survey has ended by then.
  void List(const std::string& output_dir, std::function<void(CheckpointView)> done);

 private:
  const std::shared_ptr<rpc::LoopGate> gate_;
};

}  // namespace lr::launcher
