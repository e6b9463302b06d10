/// The part of the App that sums the run up: result file, facts for the failure report.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "launcher/app.h"
#include "launcher/report/result_file.h"

namespace lr::launcher {
namespace {

int64_t UnixNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// --result-file; a file that cannot be written never changes the exit code.
void App::WriteResult() {
  if (plan_.result_file.empty()) {
    return;
  }
  RunFacts facts{.outcome = outcome_,
                 .assignment = assignment_,
                 .endings = endings_,
                 .run_directory = run_directory_,
                 .checkpoint_directory = "",
                 .exit_code = exit_code_,
                 .started_unix_ns = started_unix_ns_,
                 .ended_unix_ns = UnixNanoseconds()};
  if (service_) {
    for (const auto& [rank, progress] : service_->progress()) {
      if (progress.checkpoint_step > facts.checkpoint_step) {
        facts.checkpoint_step = progress.checkpoint_step;
        facts.checkpoint_directory = progress.checkpoint_dir;
      }
    }
  }
  if (const Status written = WriteResultFile(plan_.result_file, facts); !written.ok()) {
    Say(fmt::format("warning: no result file: {}", written.message()));
  }
}

FailureContext App::Context() const {
  FailureContext context{
      .program = plan_.program.given, .run_directory = run_directory_, .hang = hang_};
  if (service_) {
    for (const auto& [rank, progress] : service_->progress()) {
      context.steps[rank] = progress.step;
      context.checkpoint_step = std::max(context.checkpoint_step, progress.checkpoint_step);
    }
  }
  return context;
}

}  // namespace lr::launcher
