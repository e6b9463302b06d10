/// lr-launch: one per node, starts and supervises the workers of a run (README.md). main() decides
/// nothing: it prepares, forks the sweeper while the process has a single thread, and hands over to
/// the App on this thread.

#include <chrono>
#include <cstdio>
#include <memory>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include "common/contract/exit_codes.h"
#include "common/log/log.h"
#include "launcher/app.h"
#include "launcher/cli/machine_probe.h"
#include "launcher/launch_setup.h"
#include "launcher/native/checkpoint_survey.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::seconds kConsoleWait{60};  // a reader that is slow, not gone

int End(const EarlyEnd& end) {
  std::fputs(end.out.c_str(), stdout);
  std::fputs(end.err.c_str(), stderr);
  return end.exit_code;
}

int Launch(PreparedLaunch prepared, const std::string& node_id, Variables environment) {
  auto sweeper = Sweeper::Start("LR_NODE_ID=" + node_id);
  if (!sweeper.ok()) {
    return End({.exit_code = kExitInternal,
                .out = "",
                .err = fmt::format("lr-launch: {}\n", sweeper.status().message())});
  }
  BecomeSubreaper();
  const auto console = std::make_shared<Console>(STDOUT_FILENO, STDERR_FILENO);
  const Status logging =
      log::SetUp({.prefix = "lr-launch", .level = "warn", .sink = [console](std::string_view line) {
                    console->Say(line);
                  }});
  if (!logging.ok()) {
    return End({.exit_code = kExitUsage,
                .out = "",
                .err = fmt::format("lr-launch: error: {}\n", logging.message())});
  }
  for (const std::string& line : prepared.lines) {
    console->Say(line + "\n");
  }
  int exit_code = kExitInternal;
  {
    boost::asio::io_context loop;
    CheckpointSurvey survey(loop);
    App app(
        loop,
        *console,
        *sweeper,
        {.join = Membership::Start,
         .serve_workers = WorkerService::Start,
         .survey =
             [&survey](const std::string& output_dir, std::function<void(CheckpointView)> done) {
               survey.List(output_dir, std::move(done));
             }},
        std::move(prepared.plan),
        {.node_id = node_id,
         .host_name = ShortHostName(),
         .build = BuildVersion(),
         .foreign_digest = prepared.foreign_digest,
         .environment = std::move(environment)});
    exit_code = app.Run();
  }
  sweeper->Dismiss();
  console->Flush(kConsoleWait);
  return exit_code;
}

int Main(int argc, char** argv) {
  IgnoreBrokenPipes();
  const std::string node_id = RandomId();
  Variables environment = ProcessEnvironmentSnapshot();
  LaunchSetup setup = PrepareLaunch({argv, argv + argc}, environment, RandomId());
  if (const auto* end = std::get_if<EarlyEnd>(&setup)) {
    return End(*end);
  }
  return Launch(std::get<PreparedLaunch>(std::move(setup)), node_id, std::move(environment));
}

}  // namespace
}  // namespace lr::launcher

int main(int argc, char** argv) {
  return lr::launcher::Main(argc, argv);
}
