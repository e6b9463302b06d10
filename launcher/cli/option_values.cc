#include "launcher/cli/option_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>

#include "common/base/text.h"

namespace lr::launcher {
namespace {

constexpr int kMaxNodes = 16'384;
constexpr double kLongestSeconds = 7.0 * 24 * 3600;

struct NamedSignal {
  std::string_view name;
  int number;
};

constexpr std::array kSignals = std::to_array<NamedSignal>({
    {"SIGTERM", SIGTERM},
    {"SIGINT", SIGINT},
    {"SIGHUP", SIGHUP},
    {"SIGQUIT", SIGQUIT},
    {"SIGUSR1", SIGUSR1},
    {"SIGUSR2", SIGUSR2},
    {"SIGALRM", SIGALRM},
    {"SIGXCPU", SIGXCPU},
    {"SIGPWR", SIGPWR},
});

std::optional<int> SignalNumber(const std::string& name) {
  const std::string full = name.starts_with("SIG") ? name : "SIG" + name;
  const auto* found = std::ranges::find(kSignals, full, &NamedSignal::name);
  return found == kSignals.end() ? std::nullopt : std::optional<int>(found->number);
}

}  // namespace

Result<int> ReadWhole(const std::string& text,
                      const std::string& spelled,
                      int minimum,
                      int maximum) {
  const std::optional<int64_t> value = ParseInt(text);
  if (!value || *value < minimum || *value > maximum) {
    return InvalidArgument("{}: must be a whole number from {} to {}", spelled, minimum, maximum);
  }
  return static_cast<int>(*value);
}

Result<std::chrono::milliseconds> ReadSeconds(const std::string& text, const std::string& spelled) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 0.0 && seconds <= kLongestSeconds)) {
    return InvalidArgument(
        "{}: must be a number of seconds from 0 to {:.0f}", spelled, kLongestSeconds);
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

Result<std::pair<int, int>> ReadNodeRange(const std::string& text, const std::string& spelled) {
  const std::vector<std::string> parts = Split(text, ':');
  const std::optional<int64_t> minimum = ParseInt(parts.front());
  const std::optional<int64_t> maximum = ParseInt(parts.back());
  if (parts.size() > 2 || !minimum || !maximum || *minimum < 1 || *maximum < *minimum ||
      *maximum > kMaxNodes) {
    return InvalidArgument(
        "{}: must be N or MIN:MAX with 0 < MIN <= MAX <= {}", spelled, kMaxNodes);
  }
  return std::pair(static_cast<int>(*minimum), static_cast<int>(*maximum));
}

Result<HostAndPort> ReadEndpoint(const std::string& text, const std::string& spelled) {
  if (text.starts_with("dns+srv:") || text.starts_with("file:") ||
      text.find(',') != std::string::npos) {
    return InvalidArgument("{}: only HOST[:PORT] is served by this version", spelled);
  }
  HostAndPort endpoint{.host = text, .port = std::nullopt};
  std::string port;
  const size_t colon = text.rfind(':');
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    const std::string rest = bracket == std::string::npos ? "?" : text.substr(bracket + 1);
    if (!rest.empty() && rest[0] != ':') {
      return InvalidArgument("{}: an IPv6 address with a port is written [ADDRESS]:PORT", spelled);
    }
    endpoint.host = text.substr(1, bracket - 1);
    port = rest.empty() ? "" : rest.substr(1);
    if (!rest.empty() && port.empty()) {
      return InvalidArgument("{}: the port is missing after the colon", spelled);
    }
  } else if (colon != std::string::npos && text.find(':') == colon) {
    endpoint.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) {
      return InvalidArgument("{}: the port is missing after the colon", spelled);
    }
  }
  if (!port.empty()) {
    LR_ASSIGN(endpoint.port, ReadWhole(port, spelled + " (port)", 0, 65535));
  }
  if (endpoint.host.empty()) {
    return InvalidArgument("{}: the host is missing", spelled);
  }
  return endpoint;
}

Result<std::vector<int>> ReadSignals(const std::string& text, const std::string& spelled) {
  std::vector<int> signals;
  std::vector<std::string> known;
  for (const NamedSignal& signal : kSignals) {
    known.emplace_back(signal.name);
  }
  for (const std::string& part : Split(text, ',')) {
    const std::string name(Trim(part));
    const std::optional<int> number = SignalNumber(name);
    if (!number) {
      return InvalidArgument(
          "{}: '{}' cannot be handled; known signals: {}", spelled, name, Join(known, ", "));
    }
    if (std::ranges::find(signals, *number) == signals.end()) {
      signals.push_back(*number);
    }
  }
  return signals;
}

Result<std::map<std::string, std::string>> ReadKeyValues(const std::string& text,
                                                         const std::string& spelled) {
  std::map<std::string, std::string> pairs;
  if (Trim(text).empty()) {
    return pairs;
  }
  for (const std::string& part : Split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string key(Trim(part.substr(0, equals)));
    const std::string value =
        equals == std::string::npos ? "" : std::string(Trim(part.substr(equals + 1)));
    if (key.empty() || value.empty()) {
      return InvalidArgument("{}: '{}' is not KEY=VALUE", spelled, part);
    }
    pairs[key] = value;
  }
  return pairs;
}

Status CheckWord(const std::string& text,
                 const std::string& spelled,
                 const std::vector<std::string>& words) {
  if (std::ranges::find(words, text) != words.end()) {
    return {};
  }
  const std::optional<std::string> nearest = NearestName(text, words);
  return InvalidArgument("{}: must be one of {}{}",
                         spelled,
                         Join(words, ", "),
                         nearest ? "; did you mean " + *nearest + "?" : "");
}

}  // namespace lr::launcher
