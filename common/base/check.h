#pragma once
/// LR_CHECK: programmer errors. Aborts with file, line and context; never used on input, network or
/// peer behaviour.

#include <fmt/format.h>

namespace lr::internal {

/// Prints "file:line: check failed: condition: message" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file,
                              int line,
                              const char* condition,
                              const std::string& message);

}  // namespace lr::internal

#define LR_CHECK(condition, ...)                                                             \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      ::lr::internal::CheckFailed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                        \
  } while (false)
