// What the command line takes from the outside world: environment, clock, default folder.
#include "worker/train/train_command_line.h"

namespace lr::worker {

ParseContext SystemParseContext() {
  ParseContext context;
  context.environment = ProcessEnvironment();
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &context.now);
  if (const Result<WorkerEnvironment> worker = ReadWorkerEnvironment(context.environment);
      worker.ok()) {
    context.resume_from = worker->resume_from;
    context.run_id = worker->run_id;
  }
  return context;
}

std::string DefaultOutputDir(const std::tm& now, const std::string& job_name) {
  return fmt::format("outputs/train/{:04}-{:02}-{:02}/{:02}-{:02}-{:02}_{}",
                     now.tm_year + 1900,
                     now.tm_mon + 1,
                     now.tm_mday,
                     now.tm_hour,
                     now.tm_min,
                     now.tm_sec,
                     job_name);
}

}  // namespace lr::worker
