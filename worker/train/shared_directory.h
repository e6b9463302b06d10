#pragma once
/// Whether the ranks see one output directory (C-13): the lock that the main rank holds in it is
/// the cookie that every node reads back. Step thread, collective, once at the start.

#include <chrono>
#include <string>

#include "common/base/status.h"
#include "worker/comm/communicator.h"

namespace lr::worker {

/// The hosts that do not see the main rank's directory, in words; empty: all do. Only `reads` ranks
/// look (one per node), as long as `patience` lasts: file systems of several hosts may show a new
/// file some seconds later. The others take part.
Result<std::string> HostsWithoutDirectory(
    Communicator& ranks,
    const std::string& output_dir,
    bool reads,
    std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace lr::worker
