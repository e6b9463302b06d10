#pragma once
/// The addresses of this machine's interfaces, to see whether it owns the endpoint. One
/// system call of microseconds; never fails: without an answer the list is empty.

#include <string>
#include <vector>

namespace lr::launcher {

/// IPv4 and IPv6, without zone, in interface order.
std::vector<std::string> OwnAddresses();

}  // namespace lr::launcher
