#pragma once
/// One upload at a time beside a training: Publish() on a thread of its own. The owner's thread
/// starts, polls and stops it; lines for the log come on the upload's thread.

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/descriptor.h"
#include "common/base/status.h"
#include "worker/hub/publisher.h"

namespace lr::worker {

class BackgroundPublisher {
 public:
  BackgroundPublisher(HubSettings settings, std::function<void(std::string_view line)> log)
      : settings_(std::move(settings)), log_(std::move(log)) {}

  /// Stops an upload under way and waits for its end.
  ~BackgroundPublisher();
  BackgroundPublisher(const BackgroundPublisher&) = delete;
  BackgroundPublisher& operator=(const BackgroundPublisher&) = delete;

  const HubSettings& settings() const { return settings_; }

  bool in_progress() const { return result_.valid(); }

  /// Not while one is in progress.
  void Begin(const PublishRequest& request);

  /// What was begun last.
  const PublishRequest& request() const { return request_; }

  /// Waits at most `patience`; the outcome of Publish(), once. nullopt: still going on, or none was
  /// begun.
  std::optional<Result<std::string>> Poll(std::chrono::milliseconds patience = {});

  /// Ends the upload under way (kCancelled), if there is one; returns at once.
  void Stop();

 private:
  HubSettings settings_;
  std::function<void(std::string_view line)> log_;
  PublishRequest request_;
  Descriptor stop_;                          ///< eventfd, made anew for every upload
  std::future<Result<std::string>> result_;  ///< its destructor waits: the thread uses the rest
};

}  // namespace lr::worker
