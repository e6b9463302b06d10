#pragma once
/// (pure) Which addresses count as this machine's, and which one rank 0's node advertises for the
/// workers' store. Called by the node's side of the rendezvous.

#include <string>
#include <string_view>
#include <vector>

namespace lr::launcher {

/// "127.…", "::1", "::ffff:127.…" or "localhost".
bool IsLoopback(std::string_view address);

/// One of `resolved` is an address of one of this machine's interfaces; all of 127/8 is.
bool OwnsAny(const std::vector<std::string>& resolved, const std::vector<std::string>& own);

struct AddressFacts {
  bool one_node = false;
  std::string given_host;                ///< of the endpoint, as typed; may be empty
  std::vector<std::string> resolved;     ///< what it resolved to here
  std::vector<std::string> own;          ///< of all interfaces
  std::vector<std::string> local_addrs;  ///< --local-addr, in order
  std::string seen_from;                 ///< where the host sees this node
};

struct AddressChoice {
  std::string address;
  std::string reason;
};

/// Order of R-32; always finds something: in the worst case an address that only this machine has.
AddressChoice ChooseWorkerAddress(const AddressFacts& facts);

/// Further addresses to try where some node cannot reach the chosen one: those given by
/// --local-addr; without any, and unless the endpoint was given as this node's, all that are not
/// local. At most eight.
std::vector<std::string> AlternativeAddresses(const AddressFacts& facts,
                                              const AddressChoice& chosen);

/// Where a host listens: the literal address or "localhost" as given; all interfaces for a name,
/// because other nodes may resolve it to another address than this one does (127.0.1.1 of Debian).
std::string ChooseListenAddress(const std::string& given_host);

/// "10.0.0.4:29501", "[fe80::1]:29501".
std::string HostPort(std::string_view host, int port);

}  // namespace lr::launcher
