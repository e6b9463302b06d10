/// NodeAgent: requested checkpoints, and what there is to resume from.

#include <utility>

#include "launcher/rendezvous/node_agent.h"

namespace lr::launcher {

void NodeAgent::On(const Survey& survey) {
  const int64_t epoch = survey.epoch;
  if (!events_.survey) {
    return link_->Send(Surveyed{epoch, {"this launcher cannot list checkpoints", {}}});
  }
  events_.survey(survey.output_dir,
                 [this, epoch, alive = std::weak_ptr(alive_)](CheckpointView view) {
                   if (!alive.expired() && phase_ != Phase::kOver) {
                     link_->Send(Surveyed{epoch, std::move(view)});
                   }
                 });
}

void NodeAgent::On(const RequestUpdate& update) {
  if (events_.update) {
    events_.update(update.result);
  }
}

void NodeAgent::ReportSave(int64_t epoch, const SaveNews& news) {
  if (link_ != nullptr && phase_ != Phase::kOver && epoch == assignment_.epoch) {
    if (!news.running) {
      TellProgress();  // with how long it took
    }
    link_->Send(Saved{epoch, news});
  }
}

void NodeAgent::RequestControl(const ControlRequest& request) {
  if (phase_ == Phase::kRunning && !host_lost_) {
    link_->Send(ControlAsk{request});
  } else if (events_.update) {
    events_.update({.id = request.id,
                    .state = RequestState::kFailed,
                    .reason = "no worker runs on this node now"});
  }
}

}  // namespace lr::launcher
