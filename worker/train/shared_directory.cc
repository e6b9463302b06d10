#include "worker/train/shared_directory.h"

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "common/base/text.h"
#include "common/io/directory_lock.h"

namespace lr::worker {

namespace {

constexpr auto kPause = std::chrono::milliseconds(100);

std::string Cookie(const std::string& output_dir) {
  const std::optional<LockOwner> owner = ReadLockOwner(output_dir);
  return owner ? fmt::format("{} {} {}", owner->run_id, owner->host, owner->pid) : "";
}

bool Sees(const std::string& output_dir,
          const std::string& cookie,
          std::chrono::milliseconds patience) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (Cookie(output_dir) != cookie) {
    if (std::chrono::steady_clock::now() >= limit) {
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace

Result<std::string> HostsWithoutDirectory(Communicator& ranks,
                                          const std::string& output_dir,
                                          bool reads,
                                          std::chrono::milliseconds patience) {
  LR_ASSIGN(const std::string cookie,
            ranks.BroadcastFromMain(ranks.rank() == 0 ? Cookie(output_dir) : ""));
  const bool blind = reads && !Sees(output_dir, cookie, patience);
  LR_ASSIGN(const std::vector<std::string> hosts,
            ranks.AllGather(blind ? ThisProcess("").host : ""));
  std::set<std::string> names(hosts.begin(), hosts.end());
  names.erase("");
  return Join({names.begin(), names.end()}, ", ");
}

}  // namespace lr::worker
