#pragma once
/// File descriptors and pipes with an owner. Any thread, as plain values.

#include "common/base/status.h"

namespace lr::launcher {

/// Owns one file descriptor.
class Descriptor {
 public:
  Descriptor() = default;

  explicit Descriptor(int fd) : fd_(fd) {}

  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}

  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset(other.Release());
    return *this;
  }

  ~Descriptor() { Reset(-1); }

  int get() const { return fd_; }

  int Release();

  void Reset(int fd);

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

/// Both ends close on exec.
Result<Pipe> MakePipe();

}  // namespace lr::launcher
