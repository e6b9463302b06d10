#pragma once
/// Looks at the machine without touching a device: device files, sysfs, processor masks and quota.
/// Called once by main(); what cannot be read counts as absent, so it never fails and never creates
/// a device context.

#include <string>

#include "launcher/cli/device_count.h"

namespace lr::launcher {

/// `root` is put before every path ("" in programs, a prepared folder in tests).
MachineFacts ProbeMachine(const std::string& root);

/// The short host name, as torchrun's ${hostname}.
std::string ShortHostName();

/// 128 random bits as 32 hexadecimal digits.
std::string RandomId();

}  // namespace lr::launcher
