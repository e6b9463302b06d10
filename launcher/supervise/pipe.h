#pragma once
/// A pipe whose ends have an owner. Any thread, as a plain value.

#include "common/base/descriptor.h"
#include "common/base/status.h"

namespace lr::launcher {

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

/// Both ends close on exec.
Result<Pipe> MakePipe();

}  // namespace lr::launcher
