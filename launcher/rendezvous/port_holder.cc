#include "launcher/rendezvous/port_holder.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "launcher/rendezvous/port_owner.h"

namespace lr::launcher {
namespace {

/// All addresses of both families, or of IPv4 alone where the machine has no IPv6: as the stores
/// of PyTorch bind.
struct AnyAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

AnyAddress MakeAnyAddress(int family, int port) {
  AnyAddress address;
  if (family == AF_INET6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_any;
    v6.sin6_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof(v6);
    std::memcpy(&address.storage, &v6, sizeof(v6));
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_ANY);
    v4.sin_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof(v4);
    std::memcpy(&address.storage, &v4, sizeof(v4));
  }
  return address;
}

int BoundPort(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return 0;
  }
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

/// An errno, 0 for success.
int BindReserved(int fd, int family, int port) {
  const int on = 1;
  const int off = 0;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0)) {
    return errno;
  }
  const AnyAddress address = MakeAnyAddress(family, port);
  return bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 ? 0
                                                                                          : errno;
}

/// Tells the launchers of this machine that the port is taken; -1: another one has it.
int TakeName(int port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("lr-launch/worker-port/{}", port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a zero first: no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

PortHolder::~PortHolder() {
  close(fd_);
  close(name_fd_);
}

Result<std::unique_ptr<PortHolder>> PortHolder::Hold(int port) {
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    error = BindReserved(fd, family, port);
    if (error == 0) {
      const int bound = BoundPort(fd);
      if (const int name_fd = TakeName(bound); name_fd >= 0) {
        return std::make_unique<PortHolder>(fd, name_fd, bound);
      }
      close(fd);
      return AlreadyExists(
          "port {} is reserved for the workers of another lr-launch on this machine", bound);
    }
    close(fd);
    if (error == EADDRINUSE) {
      return AlreadyExists("{}", DescribeBusyPort(port));
    }
  }
  return Unavailable("cannot reserve port {}: {}", port, strerrordesc_np(error));
}

Result<std::unique_ptr<PortHolder>> HoldWorkerPort(int port,
                                                   bool explicit_port,
                                                   std::string& notice) {
  Result<std::unique_ptr<PortHolder>> holder = PortHolder::Hold(port);
  if (holder.ok() || explicit_port || port == 0) {
    return holder;
  }
  notice = holder.status().message();
  holder = PortHolder::Hold(0);
  if (holder.ok()) {
    notice += fmt::format("; the workers' store uses the free port {} instead", (*holder)->port());
  }
  return holder;
}

}  // namespace lr::launcher
