#include "worker/comm/local_address.h"

#include <array>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lr::worker {

namespace {

std::string NumericLocalName(int socket_fd) {
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  std::array<char, NI_MAXHOST> text{};
  if (getsockname(socket_fd, reinterpret_cast<sockaddr*>(&local), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&local),
                  size,
                  text.data(),
                  text.size(),
                  nullptr,
                  0,
                  NI_NUMERICHOST) != 0) {
    return {};
  }
  return text.data();
}

}  // namespace

std::string LocalAddressTowards(const std::string& host) {
  constexpr const char* kLoopback = "127.0.0.1";
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) {
    return kLoopback;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      continue;
    }
    std::string name;
    if (connect(fd, one->ai_addr, one->ai_addrlen) == 0) {
      name = NumericLocalName(fd);
    }
    close(fd);
    if (!name.empty()) {
      return name;
    }
  }
  return kLoopback;
}

}  // namespace lr::worker
