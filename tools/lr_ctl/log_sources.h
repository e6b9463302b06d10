#pragma once
/// (pure) Which log files of this node answer a request, from the record of the run.

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"

namespace lr {

struct LogRequest {
  std::optional<int> rank;     ///< nullopt: all of this node
  std::optional<int> attempt;  ///< nullopt: the newest
  bool out = true;
  bool err = true;
};

struct LogSource {
  std::string path;
  std::string name;  ///< "3 stderr"
};

/// Files that a run with these streams in files would have; not each needs to exist. Errors say
/// why there are none, and where to ask instead.
Result<std::vector<LogSource>> FindLogSources(const Json& record, const LogRequest& request);

}  // namespace lr
