#pragma once
/// (pure) Which command line is spoken: torchrun's or that of `accelerate launch` (L-2), from the
/// name that the program was called by and the first argument. --dialect decides otherwise.

#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::launcher {

enum class Dialect { kTorchrun, kAccelerate };

struct Invocation {
  Dialect dialect = Dialect::kTorchrun;
  std::vector<std::string> arguments;  ///< without argv[0] and without `launch`
};

/// kFailedPrecondition (exit 78) for other sub-commands of accelerate, kInvalidArgument when there
/// is none.
Result<Invocation> ReadInvocation(const std::vector<std::string>& argv);

}  // namespace lr::launcher
