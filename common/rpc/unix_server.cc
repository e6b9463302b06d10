#include "common/rpc/unix_server.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include "common/base/descriptor.h"
#include "common/rpc/transport.h"

namespace lr::rpc {
namespace {

using Protocol = boost::asio::local::stream_protocol;

constexpr std::chrono::milliseconds kEndLimit{200};

bool SomebodyAnswers(const sockaddr_un& address) {
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return probe.get() >= 0 &&
         connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// A listening socket; the mode is set on the descriptor before its name appears.
Result<int> ListenOn(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("the socket path '{}' has {} bytes, the system allows {}",
                           path,
                           path.size(),
                           sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());

  struct stat info {};

  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return AlreadyExists("'{}' is no socket of ours; remove it or choose another folder", path);
    }
    if (SomebodyAnswers(address)) {
      return AlreadyExists("another process serves the socket '{}'", path);
    }
    unlink(path.c_str());
  }
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.get() < 0 || fchmod(listener.get(), 0600) != 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return Unavailable("cannot serve the socket '{}': {}", path, strerrordesc_np(errno));
  }
  return listener.Release();
}

bool IsOurUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

class ServerImpl final : public UnixServer {
 public:
  ServerImpl(boost::asio::io_context& loop,
             int listener,
             std::string path,
             grpc::Service& service,
             int largest_request)
      : acceptor_(loop, Protocol(), listener),
        path_(std::move(path)),
        service_(service),
        largest_request_(largest_request) {
    Accept();
  }

  ~ServerImpl() override { Shutdown(kEndLimit); }

  void Shutdown(std::chrono::milliseconds limit) override {
    if (!acceptor_.is_open()) {
      return;
    }
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    unlink(path_.c_str());
    if (server_) {
      server_->Shutdown(std::chrono::system_clock::now() + limit);
    }
  }

 private:
  void Accept() {
    acceptor_.async_accept([this, alive = std::weak_ptr(alive_)](
                               const boost::system::error_code& error, Protocol::socket peer) {
      if (alive.expired() || !acceptor_.is_open()) {
        return;
      }
      if (!error) {
        Serve(std::move(peer));
      } else {
        spdlog::warn("cannot accept on '{}': {}", path_, error.message());
      }
      Accept();
    });
  }

  void Serve(Protocol::socket peer) {
    if (!IsOurUser(peer.native_handle())) {
      spdlog::warn("a connection of another user to '{}' was closed", path_);
      return;
    }
    if (!server_) {
      grpc::ServerBuilder builder;
      ConfigureServer(builder, largest_request_);
      builder.RegisterService(&service_);
      server_ = builder.BuildAndStart();
    }
    if (server_) {
      peer.native_non_blocking(true);
      fcntl(peer.native_handle(), F_SETFD, FD_CLOEXEC);  // Asio's accept does not; workers follow
      grpc::AddInsecureChannelFromFd(server_.get(), peer.release());
    } else {
      spdlog::error("gRPC does not start; nobody is served on '{}'", path_);
    }
  }

  Protocol::acceptor acceptor_;
  const std::string path_;
  grpc::Service& service_;
  const int largest_request_;
  std::unique_ptr<grpc::Server> server_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // guards the accept handler
};

}  // namespace

Result<std::unique_ptr<UnixServer>> UnixServer::Listen(boost::asio::io_context& loop,
                                                       const std::string& path,
                                                       grpc::Service& service,
                                                       int largest_request) {
  LR_ASSIGN(const int listener, ListenOn(path));
  return std::unique_ptr<UnixServer>(
      std::make_unique<ServerImpl>(loop, listener, path, service, largest_request));
}

}  // namespace lr::rpc
