#include "launcher/rendezvous/port_owner.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

/// Inodes of the sockets bound to `port`, out of /proc/net/tcp or tcp6: the fields of a line are
/// number, local address:port (hexadecimal), remote, state, queues, timer, retransmits, uid,
/// timeout, inode.
void CollectInodes(const std::string& path, int port, std::set<std::string>& inodes) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::string suffix = fmt::format(":{:04X}", port);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
        timeout >> inode;
    if (local.ends_with(suffix) && inode != "0") {
      inodes.insert(fmt::format("socket:[{}]", inode));
    }
  }
}

bool HoldsOneOf(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(process / "fd", error)) {
    std::error_code unreadable;
    if (inodes.contains(fs::read_symlink(entry.path(), unreadable).string())) {
      return true;
    }
  }
  return false;
}

std::string CommandOf(const fs::path& process) {
  constexpr size_t kLongest = 120;
  std::ifstream file(process / "cmdline", std::ios::binary);
  std::string command(kLongest, '\0');
  file.read(command.data(), static_cast<std::streamsize>(command.size()));
  command.resize(static_cast<size_t>(file.gcount()));
  std::ranges::replace(command, '\0', ' ');
  return std::string(Trim(command));
}

}  // namespace

std::optional<PortOwner> FindPortOwner(int port, const std::string& proc) {
  std::set<std::string> inodes;
  CollectInodes(proc + "/net/tcp", port, inodes);
  CollectInodes(proc + "/net/tcp6", port, inodes);
  if (inodes.empty()) {
    return std::nullopt;
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, error)) {
    const std::optional<int64_t> pid = ParseInt(entry.path().filename().string());
    if (pid && HoldsOneOf(entry.path(), inodes)) {
      return PortOwner{static_cast<int>(*pid), CommandOf(entry.path())};
    }
  }
  return std::nullopt;
}

std::string DescribeBusyPort(int port, const std::string& proc) {
  const std::optional<PortOwner> owner = FindPortOwner(port, proc);
  return owner ? fmt::format("port {} is in use by pid {} ({})", port, owner->pid, owner->command)
               : fmt::format("port {} is in use by a process that is not visible", port);
}

}  // namespace lr::launcher
