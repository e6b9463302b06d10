#include "launcher/native/marker_watch.h"

#include <chrono>
#include <glob.h>
#include <sys/stat.h>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/blocked_signals.h"
#include "common/rpc/loop_gate.h"

namespace lr::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::system_clock;

constexpr milliseconds kPause{100};
constexpr milliseconds kCoarse{20};  // file systems round their times down

std::vector<std::string> Paths(const ForeignCheckpoints& markers) {
  std::vector<std::string> paths;
  if (!markers.done_file.empty()) {
    paths.push_back(markers.done_file);
  }
  if (!markers.glob.empty()) {
    glob_t found{};
    if (glob(markers.glob.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    globfree(&found);
  }
  return paths;
}

std::string NewerThan(const ForeignCheckpoints& markers, nanoseconds since) {
  for (const std::string& path : Paths(markers)) {
    struct stat status {};

    if (stat(path.c_str(), &status) == 0) {
      const nanoseconds written =
          std::chrono::seconds(status.st_mtim.tv_sec) + nanoseconds(status.st_mtim.tv_nsec);
      if (written + kCoarse >= since) {
        return path;
      }
    }
  }
  return "";
}

class WatchImpl final : public MarkerWatch {
 public:
  WatchImpl(boost::asio::io_context& loop,
            const ForeignCheckpoints& markers,
            std::function<void(const std::string&)> found)
      : gate_(std::make_shared<rpc::LoopGate>(loop)) {
    const BlockedSignals blocked;  // they belong to the loop
    const nanoseconds since = system_clock::now().time_since_epoch();
    std::thread([gate = gate_, markers, since, found = std::move(found)]() mutable {
      while (gate->is_open()) {
        if (std::string path = NewerThan(markers, since); !path.empty()) {
          return gate->Post([path = std::move(path), found = std::move(found)] { found(path); });
        }
        std::this_thread::sleep_for(kPause);
      }
    }).detach();
  }

  ~WatchImpl() override { gate_->Close(); }

 private:
  const std::shared_ptr<rpc::LoopGate> gate_;
};

}  // namespace

std::unique_ptr<MarkerWatch> MarkerWatch::Start(
    boost::asio::io_context& loop,
    const ForeignCheckpoints& markers,
    std::function<void(const std::string& path)> found) {
  return std::make_unique<WatchImpl>(loop, markers, std::move(found));
}

}  // namespace lr::launcher
