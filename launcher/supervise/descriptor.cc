#include "launcher/supervise/descriptor.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace lr::launcher {

int Descriptor::Release() {
  return std::exchange(fd_, -1);
}

void Descriptor::Reset(int fd) {
  if (fd_ >= 0 && fd_ != fd) {
    close(fd_);
  }
  fd_ = fd;
}

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ResourceExhausted("cannot make a pipe: {} (see ulimit -n)",
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  return Pipe{.read_end = Descriptor(ends[0]), .write_end = Descriptor(ends[1])};
}

}  // namespace lr::launcher
