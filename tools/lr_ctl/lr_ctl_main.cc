// lr-ctl: asks a running lr-launch how it is, for a checkpoint, or to stop, and shows what a run
// left. Exit codes: 0 done, 1 the request failed, 2 usage, 3 no such run; watch: the run's own.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <grpcpp/grpcpp.h>

#include "proto/lr/v1/run.grpc.pb.h"

#include "common/contract/exit_codes.h"
#include "tools/lr_ctl/checkpoint_command.h"
#include "tools/lr_ctl/log_command.h"
#include "tools/lr_ctl/run_finder.h"
#include "tools/lr_ctl/run_query.h"
#include "tools/lr_ctl/run_tables.h"
#include "tools/lr_ctl/stack_query.h"
#include "tools/lr_ctl/watch_command.h"

namespace lr {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitNoRun = 3;

struct Arguments {
  std::string run;
  bool json = false;
  CheckpointOptions checkpoint;
  std::string reason = "lr-ctl cancel";
  double interval_s = 1;
  LogOptions logs;
};

int Fail(int code, const std::string& text) {
  fmt::print(stderr, "lr-ctl: {}\n", text);
  return code;
}

void Limit(grpc::ClientContext& context, std::chrono::seconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}

/// The record as it stands; says when it may be out of date.
Json Describe(const FoundRun& run) {
  RunView view = QueryRun(run);
  if (!view.trouble.empty()) {
    fmt::print(stderr, "lr-ctl: {}\n", view.trouble);
  }
  return std::move(view.record);
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

int WatchCommand(const Arguments& arguments) {
  Result<FoundRun> run = FindRun(arguments.run, ProcessEnvironment());
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  return WatchRun(std::move(run).value(),
                  std::chrono::milliseconds(static_cast<int64_t>(arguments.interval_s * 1000)));
}

int FailuresCommand(const Arguments& arguments) {
  const Result<FoundRun> run =
      FindRun(arguments.run, ProcessEnvironment(), WhenNoneIsActive::kNewest);
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  const Json record = Describe(*run);
  if (arguments.json) {
    fmt::print("{}\n", record.value("failures", Json::array()).dump(1));
  } else {
    fmt::print("{}\n", FailuresText(record));
  }
  return kExitOk;
}

int LogsCommand(const Arguments& arguments) {
  const Result<FoundRun> run =
      FindRun(arguments.run, ProcessEnvironment(), WhenNoneIsActive::kNewest);
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  const Status printed = PrintLogs(*run, arguments.logs);
  return printed.ok() ? kExitOk : Fail(kExitFailed, printed.message());
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
  return RequestCheckpoint(*run, arguments.checkpoint);
}

int StacksCommand(const Arguments& arguments) {
  const Result<FoundRun> run =
      FindRun(arguments.run, ProcessEnvironment(), WhenNoneIsActive::kNewest);
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  const Result<RunStacks> stacks = GetStacks(*run, arguments.logs.request.rank);
  if (!stacks.ok()) {
    return Fail(kExitFailed, stacks.status().message());
  }
  if (!stacks->note.empty()) {
    fmt::print(stderr, "lr-ctl: {}\n", stacks->note);
  }
  fmt::print("{}\n", arguments.json ? stacks->ranks.dump(1) : StacksText(stacks->ranks));
  return kExitOk;
}

int StragglersCommand(const Arguments& arguments) {
  const Result<FoundRun> run =
      FindRun(arguments.run, ProcessEnvironment(), WhenNoneIsActive::kNewest);
  if (!run.ok()) {
    return Fail(kExitNoRun, run.status().message());
  }
  const Result<Json> found = GetStragglers(*run);
  if (!found.ok()) {
    return Fail(kExitFailed, found.status().message());
  }
  fmt::print("{}\n", arguments.json ? found->dump(1) : found->value("text", ""));
  return kExitOk;
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
    const grpc::Status status = ConnectTo(*run)->Cancel(&context, request, &reply);
    if (!status.ok()) {
      return Fail(kExitFailed, fmt::format("run {}: {}", run->run_id(), status.error_message()));
    }
  }
  fmt::print("run {} is asked to stop\n", run->run_id());
  return kExitOk;
}

using Command = int (*)(const Arguments&);

void AddReading(CLI::App& app, Arguments& arguments, std::map<CLI::App*, Command>& commands) {
  CLI::App* status = app.add_subcommand("status", "one run, or all runs of yours on this machine");
  status->add_option("run", arguments.run, "RUN");
  status->add_flag("--json", arguments.json, "machine-readable");
  CLI::App* watch = app.add_subcommand("watch", "the status of a run until it ends, with its code");
  watch->add_option("run", arguments.run, "RUN; may be left out when only one is active");
  watch->add_option("--interval", arguments.interval_s, "seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0));
  CLI::App* failures = app.add_subcommand("failures", "which workers failed, how and why");
  failures->add_option("run", arguments.run, "RUN; the active one, else the newest");
  failures->add_flag("--json", arguments.json, "machine-readable");
  commands[status] = StatusCommand;
  commands[watch] = WatchCommand;
  commands[failures] = FailuresCommand;
}

void AddLogs(CLI::App& app, Arguments& arguments, std::map<CLI::App*, Command>& commands) {
  LogOptions& options = arguments.logs;
  CLI::App* logs = app.add_subcommand("logs", "the log files of the workers of this node");
  logs->add_option("run", arguments.run, "RUN; the active one, else the newest");
  logs->add_option("--rank", options.request.rank, "of this global rank only")
      ->check(CLI::NonNegativeNumber);
  logs->add_option("--attempt", options.request.attempt, "of this attempt; default: the newest")
      ->check(CLI::NonNegativeNumber);
  logs->add_option("--tail", options.tail, "the last lines of each file")
      ->check(CLI::NonNegativeNumber);
  logs->add_flag("-f,--follow", options.follow, "go on until the run ends, through restarts");
  CLI::Option* out = logs->add_flag_callback(
      "--stdout", [&options] { options.request.err = false; }, "stdout only");
  logs->add_flag_callback(
          "--stderr", [&options] { options.request.out = false; }, "stderr only")
      ->excludes(out);
  commands[logs] = LogsCommand;
}

void AddProgress(CLI::App& app, Arguments& arguments, std::map<CLI::App*, Command>& commands) {
  CLI::App* stacks = app.add_subcommand(
      "stacks", "what the threads of all ranks do now; after the end: what was collected last");
  stacks->add_option("run", arguments.run, "RUN; the active one, else the newest");
  stacks->add_option("--rank", arguments.logs.request.rank, "of this global rank only")
      ->check(CLI::NonNegativeNumber);
  stacks->add_flag("--json", arguments.json, "machine-readable");
  CLI::App* stragglers = app.add_subcommand("stragglers", "which ranks are slow, and in what");
  stragglers->add_option("run", arguments.run, "RUN; the active one, else the newest");
  stragglers->add_flag("--json", arguments.json, "machine-readable");
  commands[stacks] = StacksCommand;
  commands[stragglers] = StragglersCommand;
}

void AddRequests(CLI::App& app, Arguments& arguments, std::map<CLI::App*, Command>& commands) {
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "one checkpoint, at one step of all ranks");
  checkpoint->add_option("run", arguments.run, "RUN; may be left out when only one is active");
  CheckpointOptions& options = arguments.checkpoint;
  checkpoint->add_flag("--stop", options.stop, "and end the run after it");
  checkpoint->add_flag("--wait", options.wait, "return when it is complete, telling its states");
  checkpoint->add_flag("--no-wait",
                       options.only_when_started,
                       "refuse before the first step instead of saving after it");
  checkpoint->add_option("--within", options.within_s, "seconds that it may take")
      ->check(CLI::Range(0.1, 604800.0));
  checkpoint->add_option("--id", options.id, "a name; the same name asks for the same checkpoint");
  checkpoint->add_flag("--json", options.json, "machine-readable: one line per state");
  CLI::App* cancel = app.add_subcommand("cancel", "stop the run, with a checkpoint attempt");
  cancel->add_option("run", arguments.run, "RUN")->required();
  cancel->add_option("--reason", arguments.reason, "goes into the record");
  commands[checkpoint] = CheckpointCommand;
  commands[cancel] = CancelCommand;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Asks a running lr-launch how it is, for a checkpoint, or to stop; and what a run left.\n"
      "RUN is a run id, the beginning of one, or a run directory."};
  app.require_subcommand(1);
  Arguments arguments;
  std::map<CLI::App*, Command> commands;
  AddReading(app, arguments, commands);
  AddLogs(app, arguments, commands);
  AddProgress(app, arguments, commands);
  AddRequests(app, arguments, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return commands.at(app.get_subcommands().front())(arguments);
}

}  // namespace
}  // namespace lr

int main(int argc, char** argv) {
  return lr::Main(argc, argv);
}
