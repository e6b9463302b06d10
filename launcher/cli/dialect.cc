#include "launcher/cli/dialect.h"

namespace lr::launcher {
namespace {

constexpr std::string_view kLaunch = "launch";

/// Called as `accelerate`: only the sub-command `launch` is ours.
Result<Invocation> ReadSubCommand(const std::vector<std::string>& argv) {
  if (argv.size() < 2) {
    return InvalidArgument(
        "accelerate needs its sub-command: accelerate launch [options] PROGRAM [arguments of "
        "PROGRAM]");
  }
  const std::string& command = argv[1];
  if (command.starts_with('-')) {  // --help and the like
    return Invocation{Dialect::kAccelerate, {argv.begin() + 1, argv.end()}};
  }
  if (command != kLaunch) {
    return FailedPrecondition(
        "refused: 'accelerate {}' is not served, only 'accelerate launch': configuration files of "
        "accelerate are neither written nor read here; how to train is said by the trainer's own "
        "options --parallelism.* and --accelerator.*, after PROGRAM",
        command);
  }
  return Invocation{Dialect::kAccelerate, {argv.begin() + 2, argv.end()}};
}

}  // namespace

Result<Invocation> ReadInvocation(const std::vector<std::string>& argv) {
  if (argv.empty()) {
    return Invocation{};
  }
  const std::string name = argv[0].substr(argv[0].rfind('/') + 1);
  if (name == "accelerate") {
    return ReadSubCommand(argv);
  }
  if (name == "accelerate-launch") {
    return Invocation{Dialect::kAccelerate, {argv.begin() + 1, argv.end()}};
  }
  if (name != "torchrun" && argv.size() > 1 && argv[1] == kLaunch) {
    return Invocation{Dialect::kAccelerate, {argv.begin() + 2, argv.end()}};
  }
  return Invocation{Dialect::kTorchrun, {argv.begin() + 1, argv.end()}};
}

}  // namespace lr::launcher
