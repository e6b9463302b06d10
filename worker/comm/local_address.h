#pragma once
/// Which of this machine's addresses faces a given peer.

#include <string>

namespace lr::worker {

/// The numeric local address that the kernel would use towards `host` (a connected UDP socket;
/// nothing is sent). "localhost" and anything unresolvable give 127.0.0.1. Blocks for the name
/// look-up.
std::string LocalAddressTowards(const std::string& host);

}  // namespace lr::worker
