#include "launcher/supervise/pipe.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace lr::launcher {

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ResourceExhausted("cannot make a pipe: {} (see ulimit -n)",
                             std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
  return Pipe{.read_end = Descriptor(ends[0]), .write_end = Descriptor(ends[1])};
}

}  // namespace lr::launcher
