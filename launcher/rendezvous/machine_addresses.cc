#include "launcher/rendezvous/machine_addresses.h"

#include <arpa/inet.h>
#include <array>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>

#include <fmt/format.h>

namespace lr::launcher {

std::vector<std::string> OwnAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) {
      continue;
    }
    const void* raw = nullptr;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET) {
      raw = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else if (family == AF_INET6) {
      raw = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (raw != nullptr && inet_ntop(family, raw, text.data(), text.size()) != nullptr) {
      addresses.emplace_back(text.data());
      if (addresses.back().starts_with("fe80:")) {  // means something with its interface alone
        addresses.back() += fmt::format("%{}", entry->ifa_name);
      }
    }
  }
  return addresses;
}

}  // namespace lr::launcher
