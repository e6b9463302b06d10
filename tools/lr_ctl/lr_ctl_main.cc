// lr-ctl: asks a running lr-launch how it is, for a checkpoint, or to stop. Exit codes: 0 done, 1
// the request failed, 2 usage, 3 no such run.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <grpcpp/grpcpp.h>

#include "proto/lr/v1/run.grpc.pb.h"

#include "common/contract/exit_codes.h"
#include "tools/lr_ctl/run_finder.h"
#include "tools/lr_ctl/run_tables.h"

namespace lr {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitNoRun = 3;

struct Arguments {
  std::string run;
  bool json = false;
  bool stop = false;
  bool wait = false;
  std::string reason = "lr-ctl cancel";
};

int Fail(int code, const std::string& text) {
  fmt::print(stderr, "lr-ctl: {}\n", text);
  return code;
}

std::unique_ptr<v1::RunControl::Stub> Connect(const FoundRun& run) {
  return v1::RunControl::NewStub(
      grpc::CreateChannel("unix:" + run.control_socket(), grpc::InsecureChannelCredentials()));
}

void Limit(grpc::ClientContext& context, std::chrono::seconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}

/// The record as it stands with its native workers; from disk when nobody answers.
Json Describe(const FoundRun& run) {
  Json record = run.record;
  if (run.alive && !run.control_socket().empty()) {
    grpc::ClientContext context;
    Limit(context, std::chrono::seconds(5));
    v1::RunStatusReply reply;
    if (Connect(run)->Status(&context, {}, &reply).ok()) {
      Result<Json> live = ParseJson(reply.record_json());
      if (live.ok() && live->is_object()) {
        record = std::move(live).value();
      }
      record["workers"] = Json::array();
      for (const v1::WorkerStatus& worker : reply.workers()) {
        record["workers"].push_back({{"rank", worker.rank()},
                                     {"pid", worker.pid()},
                                     {"phase", worker.phase()},
                                     {"step", worker.step()},
                                     {"total_steps", worker.total_steps()},
                                     {"loss", worker.loss()},
                                     {"samples_per_s", worker.samples_per_s()}});
      }
    }
  }
  record["state"] = run.state();
  record["directory"] = run.directory;
  return record;
}

int StatusCommand(const Arguments& arguments) {
  if (arguments.run.empty()) {
    Json all = Json::array();
    for (const FoundRun& run : FindRuns(ProcessEnvironment())) {
      all.push_back(Describe(run));
    }
    fmt::print("{}\n", arguments.json ? all.dump(1) : RunsTable(all));
    return kExitOk;
  }
  const Result<FoundRun> run = FindRun(arguments.run, ProcessEnvironment());
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  const Json record = Describe(*run);
  fmt::print("{}\n", arguments.json ? record.dump(1) : RunDetail(record));
  return kExitOk;
}

int CheckpointCommand(const Arguments& arguments) {
  const Result<FoundRun> run = FindRun(arguments.run, ProcessEnvironment());
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  if (!run->alive || run->control_socket().empty()) {
    return Fail(
        kExitFailed,
        fmt::format(
            "run {} is {} and takes no requests{}",
            run->run_id(),
            run->state(),
            run->alive ? " (its program is not lr-train: send it the signal it expects)" : ""));
  }
  grpc::ClientContext context;
  Limit(context, arguments.wait ? std::chrono::hours(1) : std::chrono::seconds(10));
  v1::RunCheckpointRequest request;
  request.set_stop(arguments.stop);
  request.set_wait(arguments.wait);
  v1::RunCheckpointReply reply;
  const grpc::Status status = Connect(*run)->Checkpoint(&context, request, &reply);
  if (!status.ok()) {
    return Fail(kExitFailed, fmt::format("run {}: {}", run->run_id(), status.error_message()));
  }
  const Json result = {{"state", reply.state()},
                       {"step", reply.step()},
                       {"directory", reply.directory()},
                       {"reason", reply.reason()}};
  if (arguments.json) {
    fmt::print("{}\n", result.dump(1));
  } else if (reply.state() == "complete") {
    fmt::print("checkpoint of step {} is complete: {}\n", reply.step(), reply.directory());
  } else if (reply.state() == "requested") {
    fmt::print("requested; all ranks save at the same next step\n");
  } else {
    fmt::print("checkpoint {}: {}\n", reply.state(), reply.reason());
  }
  return reply.state() == "failed" ? kExitFailed : kExitOk;
}

int CancelCommand(const Arguments& arguments) {
  const Result<FoundRun> run = FindRun(arguments.run, ProcessEnvironment());
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  if (!run->alive) {
    return Fail(kExitFailed, fmt::format("run {} is {} already", run->run_id(), run->state()));
  }
  if (run->control_socket().empty()) {  // a foreign program: its launcher understands SIGTERM
    const auto pid = run->record["launcher_pid"].get<int64_t>();
    if (kill(static_cast<pid_t>(pid), SIGTERM) != 0) {
      return Fail(kExitFailed, fmt::format("cannot signal lr-launch (pid {})", pid));
    }
  } else {
    grpc::ClientContext context;
    Limit(context, std::chrono::seconds(10));
    v1::RunCancelRequest request;
    request.set_reason(arguments.reason);
    v1::RunCancelReply reply;
    const grpc::Status status = Connect(*run)->Cancel(&context, request, &reply);
    if (!status.ok()) {
      return Fail(kExitFailed, fmt::format("run {}: {}", run->run_id(), status.error_message()));
    }
  }
  fmt::print("run {} is asked to stop\n", run->run_id());
  return kExitOk;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Asks a running lr-launch how it is, for a checkpoint, or to stop.\n"
      "RUN is a run id, the beginning of one, or a run directory."};
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* status = app.add_subcommand("status", "one run, or all runs of yours on this machine");
  status->add_option("run", arguments.run, "RUN");
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "one checkpoint, at one step of all ranks");
  checkpoint->add_option("run", arguments.run, "RUN; may be left out when only one is active");
  checkpoint->add_flag("--stop", arguments.stop, "and end the run after it");
  checkpoint->add_flag("--wait", arguments.wait, "return when it is complete");
  CLI::App* cancel = app.add_subcommand("cancel", "stop the run, with a checkpoint attempt");
  cancel->add_option("run", arguments.run, "RUN")->required();
  cancel->add_option("--reason", arguments.reason, "goes into the record");
  for (CLI::App* command : {status, checkpoint}) {
    command->add_flag("--json", arguments.json, "machine-readable");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (status->parsed()) {
    return StatusCommand(arguments);
  }
  return checkpoint->parsed() ? CheckpointCommand(arguments) : CancelCommand(arguments);
}

}  // namespace
}  // namespace lr

int main(int argc, char** argv) {
  return lr::Main(argc, argv);
}
