#pragma once
/// Looks at the machine without touching a device: device files, sysfs, processor masks and quota.
/// Called once by main(); what cannot be read counts as absent, so it never fails and never creates
/// a device context.

#include <optional>
#include <string>

#include "launcher/cli/device_count.h"

namespace lr::launcher {

/// `root` is put before every path ("" in programs, a prepared folder in tests).
MachineFacts ProbeMachine(const std::string& root);

/// The address of a network interface that other nodes can use: IPv4 first, then IPv6, never
/// link-local.
std::optional<std::string> InterfaceAddress(const std::string& interface);

/// The short host name, as torchrun's ${hostname}.
std::string ShortHostName();

/// The host name with its domain as /etc/hosts tells it (a pod's lies there); without one the host
/// name alone. No name server is asked.
std::string FullHostName(const std::string& root);

/// 128 random bits as 32 hexadecimal digits.
std::string RandomId();

}  // namespace lr::launcher
