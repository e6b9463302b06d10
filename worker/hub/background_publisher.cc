// See the header.
#include "worker/hub/background_publisher.h"

#include <sys/eventfd.h>

#include "common/base/check.h"

namespace lr::worker {

BackgroundPublisher::~BackgroundPublisher() {
  Stop();
}

void BackgroundPublisher::Begin(const PublishRequest& request) {
  LR_CHECK(!in_progress(), "an upload beside the one of '{}'", request_.pretrained.string());
  request_ = request;
  stop_.Reset(eventfd(0, EFD_CLOEXEC));
  result_ = std::async(std::launch::async, [this, request, stop = stop_.get()] {
    return Publish(request, settings_, {.log = log_, .stop_fd = stop, .limit = std::nullopt});
  });
}

std::optional<Result<std::string>> BackgroundPublisher::Poll(std::chrono::milliseconds patience) {
  if (!in_progress() || result_.wait_for(patience) != std::future_status::ready) {
    return std::nullopt;
  }
  return result_.get();
}

void BackgroundPublisher::Stop() {
  if (in_progress()) {
    eventfd_write(stop_.get(), 1);
  }
}

}  // namespace lr::worker
