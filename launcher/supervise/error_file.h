#pragma once
/// Reads the error.json that a failed worker left (L-41): torchrun's format, written by Python's
/// record decorator and by our trainer. Called once per failed worker, on the event loop: the file
/// is small and bounded.

#include <string>

namespace lr::launcher {

/// The message, empty when there is no file. A file that cannot be understood gives a text that
/// says so; never throws.
std::string ReadErrorFile(const std::string& path);

}  // namespace lr::launcher
