#pragma once
/// (pure) What the options say about the output of workers: log files, console, prefixes (L-30 to
/// L-35). Plain data, read by launcher/cli, executed through stream_output.h.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lr::launcher {

/// The values are torchrun's bits.
enum class WorkerStream { kOut = 1, kErr = 2 };

/// Which streams of which local ranks an option covers: sums of WorkerStream bits, 0 to 3.
struct StreamChoice {
  int others = 0;              ///< of local ranks that are not listed
  std::map<int, int> of_rank;  ///< by local rank

  bool Covers(int local_rank, WorkerStream stream) const {
    const auto listed = of_rank.find(local_rank);
    return ((listed == of_rank.end() ? others : listed->second) & static_cast<int>(stream)) != 0;
  }
};

struct LogPlan {
  StreamChoice redirects;  ///< into a file instead of the console
  StreamChoice tee;        ///< into a file and, with a prefix, to the console
  std::string prefix_template = "[${role_name}${local_rank}]:";
  bool prefix_untouched = false;            ///< lines of streams that are not teed get it, too
  std::set<int> local_ranks_filter;         ///< console only of these; empty: of all
  std::set<int> ranks_filter;               ///< the same by global rank
  std::vector<std::string> stdout_filters;  ///< lines that contain one are copied
  std::vector<std::string> stderr_filters;
  uint64_t max_file_bytes = 0;  ///< a larger file is rotated; 0: never
  int kept_files = 3;           ///< rotated files that are kept
  bool discard = false;         ///< --log-dir=/dev/null: what would go to files goes nowhere
  bool tty = false;             ///< rank 0 writes to a pseudo-terminal
};

}  // namespace lr::launcher
