#include "common/log/log.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace lr::log {
namespace {

constexpr const char* kLevels = "trace, debug, info, warn, error, off";

/// Hands finished lines to a function: the launcher merges them with the output of its workers.
class FunctionSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_(std::string_view(line.data(), line.size()));
  }

  void flush_() override {}

  std::function<void(std::string_view)> write_;
};

Result<spdlog::level::level_enum> ParseLevel(const std::string& name) {
  const spdlog::level::level_enum level = spdlog::level::from_str(name);
  if (level == spdlog::level::off &&
      name != "off") {  // from_str answers off for every unknown name
    return InvalidArgument("log level '{}' is unknown; known levels: {}", name, kLevels);
  }
  return level;
}

std::string Pattern(const std::string& prefix) {
  std::string escaped;
  for (const char c : prefix) {
    escaped += c;
    if (c == '%') {
      escaped += '%';
    }
  }
  return escaped.empty() ? "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v"
                         : "%Y-%m-%d %H:%M:%S.%e %^%l%$ " + escaped + ": %v";
}

}  // namespace

Status SetUp(const Options& options) {
  const char* from_environment =
      std::getenv("LR_LOG_LEVEL");  // NOLINT(concurrency-mt-unsafe): before threads exist
  const bool given = from_environment != nullptr && *from_environment != '\0';
  LR_ASSIGN(const spdlog::level::level_enum level,
            ParseLevel(given ? std::string(from_environment) : options.level)
                .WithContext("{}", given ? "LR_LOG_LEVEL" : "logger"));
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (options.sink) {
    sink = std::make_shared<FunctionSink>(options.sink);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  }
  auto logger = std::make_shared<spdlog::logger>("lr", std::move(sink));
  logger->set_level(level);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  SetPrefix(options.prefix);
  return {};
}

void SetPrefix(const std::string& prefix) {
  spdlog::set_pattern(Pattern(prefix));
}

}  // namespace lr::log
