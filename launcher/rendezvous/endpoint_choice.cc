#include "launcher/rendezvous/endpoint_choice.h"

#include <algorithm>

#include <fmt/format.h>

namespace lr::launcher {
namespace {

bool IsLiteral(std::string_view host) {
  return host.find(':') != std::string_view::npos ||
         (!host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool IsLinkLocal(std::string_view address) {
  return address.starts_with("169.254.") || address.starts_with("fe80:");
}

bool IsReverseName(std::string_view host) {
  return host.ends_with(".in-addr.arpa") || host.ends_with(".ip6.arpa");
}

}  // namespace

bool IsLoopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.") ||
         address.starts_with("::ffff:127.");
}

bool OwnsAny(const std::vector<std::string>& resolved, const std::vector<std::string>& own) {
  return std::ranges::any_of(resolved, [&](const std::string& address) {
    return IsLoopback(address) || std::ranges::find(own, address) != own.end();
  });
}

AddressChoice ChooseWorkerAddress(const AddressFacts& facts) {
  const bool given = !facts.given_host.empty() && !IsReverseName(facts.given_host);
  if (facts.one_node) {
    if (given) {
      return {facts.given_host, "the address given"};
    }
    return facts.local_addrs.empty() ? AddressChoice{"localhost", "one node"}
                                     : AddressChoice{facts.local_addrs.front(), "--local-addr"};
  }
  if (given && OwnsAny(facts.resolved, facts.own)) {
    return {facts.given_host, "the endpoint as given, which is this node's"};
  }
  if (!facts.local_addrs.empty()) {
    return {facts.local_addrs.front(), "--local-addr"};
  }
  if (!facts.seen_from.empty() && !IsLoopback(facts.seen_from)) {
    return {facts.seen_from, "the address from which the host sees this node"};
  }
  const auto global = std::ranges::find_if(facts.own, [](const std::string& address) {
    return !IsLoopback(address) && !IsLinkLocal(address);
  });
  if (global != facts.own.end()) {
    return {*global, "the first address of this node that is not local"};
  }
  return {"127.0.0.1", "this node has no other address"};
}

std::vector<std::string> AlternativeAddresses(const AddressFacts& facts,
                                              const AddressChoice& chosen) {
  constexpr size_t kMost = 8;
  if (facts.one_node) {
    return {};
  }
  std::vector<std::string> candidates = facts.local_addrs;
  if (candidates.empty() && chosen.address != facts.given_host) {
    candidates = facts.own;
    candidates.insert(candidates.begin(), facts.seen_from);
  }
  std::vector<std::string> others;
  for (const std::string& address : candidates) {
    const bool usable = !address.empty() && !IsLoopback(address) && !IsLinkLocal(address);
    const bool known =
        address == chosen.address || std::ranges::find(others, address) != others.end();
    if (usable && !known && others.size() < kMost) {
      others.push_back(address);
    }
  }
  return others;
}

std::string ChooseListenAddress(const std::string& given_host) {
  if (given_host == "localhost") {
    return "127.0.0.1";
  }
  return IsLiteral(given_host) ? given_host : "::";
}

std::string HostPort(std::string_view host, int port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

}  // namespace lr::launcher
