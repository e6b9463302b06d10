#pragma once
/// torchrun's error.json (L-41), written by Python's record decorator and by our trainer: read once
/// per failed worker on the event loop (the file is small and bounded), and written at the end when
/// lr-launch itself was given such a file.

#include <string>

#include "common/base/status.h"
#include "launcher/plan/assignment.h"

namespace lr::launcher {

/// The message, empty when there is no file. A file that cannot be understood gives a text that
/// says so; never throws.
std::string ReadErrorFile(const std::string& path);

/// The ending of a worker in the same shape, for whoever started this launcher.
Status WriteErrorFile(const std::string& path, const WorkerEnding& ending);

}  // namespace lr::launcher
