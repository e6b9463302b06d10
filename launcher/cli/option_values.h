#pragma once
/// (pure) Readers of single option values: numbers, durations, endpoints, signal lists, key=value
/// lists. Each error names the option as it was spelled, the value and what is accepted.

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace lr::launcher {

Result<int> ReadWhole(const std::string& text,
                      const std::string& spelled,
                      int minimum,
                      int maximum);

/// Seconds, fractions allowed, from 0 to a week.
Result<std::chrono::milliseconds> ReadSeconds(const std::string& text, const std::string& spelled);

/// "N" or "MIN:MAX" with 0 < MIN <= MAX.
Result<std::pair<int, int>> ReadNodeRange(const std::string& text, const std::string& spelled);

struct HostAndPort {
  std::string host;
  std::optional<int> port;
};

/// host, host:port, [v6]:port, [v6] or a bare v6 address.
Result<HostAndPort> ReadEndpoint(const std::string& text, const std::string& spelled);

/// "SIGTERM,INT": numbers in the order given, without doubles. SIGKILL, SIGSTOP and SIGCHLD cannot
/// be handled.
Result<std::vector<int>> ReadSignals(const std::string& text, const std::string& spelled);

/// "k=v,k2=v2"; a key without a value is an error.
Result<std::map<std::string, std::string>> ReadKeyValues(const std::string& text,
                                                         const std::string& spelled);

/// One of the words; the error lists them.
Status CheckWord(const std::string& text,
                 const std::string& spelled,
                 const std::vector<std::string>& words);

}  // namespace lr::launcher
