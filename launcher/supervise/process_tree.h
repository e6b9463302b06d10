#pragma once
/// Finds and ends the processes of one run that the launcher did not start itself: data-loader
/// helpers, double-forked daemons, anything that changed its process group (S-5 to S-7). Works
/// without control groups: by descent (the launcher is a subreaper), by the sessions of its
/// workers, and by the run marker in the environment. Used by the launcher in every ordered ending
/// and by the sweeper after its SIGKILL.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace lr::launcher {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';
  uint64_t start_time =
      0;  ///< in clock ticks since boot; with the pid it names one process for ever
  std::string command;

  bool zombie() const { return state == 'Z' || state == 'X'; }
};

/// (pure) One line of /proc/<pid>/stat; nullopt for anything else.
std::optional<ProcessInfo> ParseStat(std::string_view line);

std::optional<ProcessInfo> ReadProcess(pid_t pid);

/// All processes that we may see.
std::vector<ProcessInfo> ListProcesses();

/// What belongs to a run.
struct RunMembership {
  pid_t root = 0;  ///< its descendants belong, itself not; 0: none
  /// Sessions that its workers lead, with the leader's start time: a session whose leader is
  /// another process by now is not ours any more.
  std::map<pid_t, uint64_t> sessions;
  std::set<pid_t> marked;  ///< processes known to carry its marker
  std::set<pid_t> never;   ///< the caller and the sweeper
};

/// (pure) Members by descent, session and mark, and the descendants of those; zombies left out.
std::vector<ProcessInfo> SelectMembers(const std::vector<ProcessInfo>& processes,
                                       const RunMembership& membership);

/// Whether the process was started with `marker` ("NAME=value") in its environment.
bool CarriesMarker(pid_t pid, std::string_view marker);

/// Sends SIGKILL to exactly this process, never to a later one with the same pid. False when it is
/// gone.
bool KillExactly(const ProcessInfo& process);

/// Kills every process of the run that is there now; returns them. Call again until it returns
/// nothing.
std::vector<ProcessInfo> SweepOnce(const RunMembership& membership, std::string_view marker);

/// Reaps ended children of this process that are not in `keep`: orphans that we adopted.
void ReapOrphans(const std::set<pid_t>& keep);

/// Orphans of our descendants become our children instead of init's.
void BecomeSubreaper();

/// Whether the process handles `signal` itself (the caught mask of /proc/<pid>/status).
bool HandlesSignal(pid_t pid, int signal);

}  // namespace lr::launcher
