#pragma once
/// torchrun's error.json (L-41), the place where a worker leaves the reason of its end for whoever
/// started it. Written by our trainer, by Python's record decorator, and by lr-launch when it was
/// itself given such a file; read by lr-launch once per failed worker. Small and bounded, so both
/// sides may use it on any thread.

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace lr {

struct ErrorReport {
  std::string message = {};  ///< one sentence: what failed
  std::string details = {};  ///< shown instead of the message by readers that look for a stack
  int exit_code = 1;
  int64_t unix_s = 0;  ///< when it failed
};

/// The details, or the message if there are none; empty when there is no file. A file that cannot
/// be understood gives a text that says so; never throws.
std::string ReadErrorFile(const std::string& path);

/// Replaces the file at once, never half.
Status WriteErrorFile(const std::string& path, const ErrorReport& report);

}  // namespace lr
