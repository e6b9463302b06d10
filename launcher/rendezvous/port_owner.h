#pragma once
/// Which process listens on a TCP port of this machine, from /proc, for the error that says a port
/// is busy. Reads files, so it is called on error paths only; whatever cannot be read
/// (another user's process) is left out.

#include <optional>
#include <string>

namespace lr::launcher {

struct PortOwner {
  int pid = 0;
  std::string command;
};

/// `proc` is "/proc" in programs, a prepared folder in tests.
std::optional<PortOwner> FindPortOwner(int port, const std::string& proc = "/proc");

/// "port 29500 is in use by pid 17 (python3 train.py)", or "… by a process that is not visible".
std::string DescribeBusyPort(int port, const std::string& proc = "/proc");

}  // namespace lr::launcher
