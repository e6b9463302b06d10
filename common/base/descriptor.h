#pragma once
/// Owns one file descriptor.

#include <unistd.h>
#include <utility>

namespace lr {

class Descriptor {
 public:
  Descriptor() = default;

  explicit Descriptor(int fd) : fd_(fd) {}

  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}

  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset(other.Release());
    return *this;
  }

  ~Descriptor() { Reset(); }

  int get() const { return fd_; }

  /// The caller closes it.
  int Release() { return std::exchange(fd_, -1); }

  /// Closes what was held.
  void Reset(int fd = -1) {
    if (fd_ >= 0 && fd_ != fd) {
      close(fd_);
    }
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace lr
