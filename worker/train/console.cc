#include "worker/train/console.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <unistd.h>

#include <fmt/chrono.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

namespace lr::worker {

namespace {

const char* LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::warn:
      return "WARNING";
    case spdlog::level::err:
    case spdlog::level::critical:
      return "ERROR";
    case spdlog::level::debug:
    case spdlog::level::trace:
      return "DEBUG";
    default:
      return "INFO";
  }
}

/// "INFO 2026-08-30 12:34:56 ot_train.py:601 message": the last 15 characters of "file:line",
/// right-aligned.
std::string FormatLine(const spdlog::details::log_msg& message) {
  std::string place = message.source.filename == nullptr
                          ? ""
                          : fmt::format("{}:{}", message.source.filename, message.source.line);
  if (place.size() > 15) {
    place = place.substr(place.size() - 15);
  }
  const std::time_t seconds = spdlog::log_clock::to_time_t(message.time);
  return fmt::format("{} {:%Y-%m-%d %H:%M:%S} {:>15} {}\n",
                     LevelName(message.level),
                     fmt::localtime(seconds),
                     place,
                     std::string_view(message.payload.data(), message.payload.size()));
}

class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ConsoleSink(std::function<void()> before_line) : before_line_(std::move(before_line)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (before_line_) {
      before_line_();
    }
    const std::string line = FormatLine(message);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }

  void flush_() override { std::fflush(stderr); }

 private:
  std::function<void()> before_line_;
};

}  // namespace

void SetUpConsole(bool main_process, std::function<void()> before_line) {
  auto logger = std::make_shared<spdlog::logger>(
      "lr-train", std::make_shared<ConsoleSink>(std::move(before_line)));
  logger->set_level(main_process ? spdlog::level::info : spdlog::level::err);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

std::string Highlighted(const std::string& text) {
  return isatty(STDERR_FILENO) == 1 ? "\033[1;33m" + text + "\033[0m" : text;
}

}  // namespace lr::worker
