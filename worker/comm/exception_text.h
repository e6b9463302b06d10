#pragma once
/// What people are shown of an exception of LibTorch: its first line; a backtrace follows.

#include <exception>
#include <string>

namespace lr::worker {

inline std::string FirstLine(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace lr::worker
