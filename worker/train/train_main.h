#pragma once
/// The program lr-train: arguments to exit code. main() only calls it; the tests' probe calls it
/// with an observer.

#include <string>
#include <vector>

#include "worker/train/training_run.h"

namespace lr::worker {

/// Exit codes: 0 done (or stopped on a launcher's request), 128+n stopped by signal n, 2 the user's
/// error, 78 foreign configuration, 70 internal, 1 anything that happened later (a lost peer, a
/// full disk). `observer` may be null.
int TrainMain(const std::vector<std::string>& args, const StepObserver& observer);

}  // namespace lr::worker
