#pragma once
/// The trainer's console: log lines in LeRobot's format on stderr, with the progress bar kept below
/// them.
///
/// Main process: info and above. Other ranks: errors only. Every thread may log; SPDLOG_INFO(…) and
/// friends are the way in, so that file and line are known.

#include <functional>
#include <string>

namespace lr::worker {

/// Installs the default logger. `before_line` runs before each line is written (hides the progress
/// bar); null: nothing.
void SetUpConsole(bool main_process, std::function<void()> before_line);

/// `text` in bold yellow when stderr is a terminal.
std::string Highlighted(const std::string& text);

}  // namespace lr::worker
