// lr-convert-dcp (lerobot-convert-dcp): one safetensors file from the shards of a checkpoint, in
// one process without LibTorch; also shows and checks checkpoints, and publishes them.
//
// Exit status: 0 done, 1 failed, 2 wrong usage, 74 converted but not published.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/contract/exit_codes.h"
#include "common/contract/worker_environment.h"
#include "tools/lr_convert_dcp/byte_progress.h"
#include "tools/lr_convert_dcp/checkpoint_place.h"
#include "tools/lr_convert_dcp/command_line.h"
#include "tools/lr_convert_dcp/conversion.h"
#include "tools/lr_convert_dcp/inspection.h"
#include "worker/checkpoint/safetensors_header_file.h"
#include "worker/hub/publish_command.h"
#include "worker/hub/publisher.h"

namespace lr {
namespace {

constexpr int kExitFailed = 1;

void Say(std::string_view text) {
  fmt::print(stderr, "{}\n", text);
}

/// The error for people, and as the JSON result where that was asked for.
int Fail(const CommandLine& line, int code, const std::string& message) {
  Say("lerobot-convert-dcp: " + message);
  if (line.json) {
    fmt::print("{}\n", Json({{"error", message}}).dump(1));
  }
  return code;
}

int List(const CommandLine& line, const CheckpointPlace& place) {
  const Result<std::vector<ListedEntry>> entries = ListEntries(place);
  if (!entries.ok()) {
    return Fail(line, kExitFailed, entries.status().message());
  }
  fmt::print("{}", line.json ? EntriesJson(*entries).dump(1) + "\n" : EntriesTable(*entries));
  return kExitOk;
}

int Verify(const CommandLine& line, const CheckpointPlace& place) {
  const std::vector<CheckOutcome> outcomes = VerifyPlace(place, ShowProgress(line.json));
  fmt::print("{}", line.json ? OutcomesJson(outcomes).dump(1) + "\n" : OutcomesTable(outcomes));
  for (const CheckOutcome& outcome : outcomes) {
    if (!outcome.is_ok) {
      return kExitFailed;
    }
  }
  return kExitOk;
}

/// SIGINT, SIGTERM and SIGHUP end an upload in order while this lives; -1 where that is impossible.
class StopSignals {
 public:
  StopSignals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      sigaddset(&wanted, signal);
    }
    pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    fd_ = signalfd(-1, &wanted, SFD_CLOEXEC);
  }

  /// A signal that came meanwhile takes effect now.
  ~StopSignals() {
    close(fd_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_; }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

int PublishFolder(const CommandLine& line, const CheckpointPlace& place, Json& result) {
  Status failed;
  {
    const StopSignals stop;
    const Result<std::string> url =
        worker::Publish({place.pretrained, *line.push_to_hub, line.is_private},
                        worker::ReadHubSettings(ProcessEnvironment()),
                        {.log = [](std::string_view text) { Say(text); },
                         .stop_fd = stop.fd(),
                         .limit = std::nullopt});
    failed = url.status();
    if (url.ok()) {
      result["published"] = *url;
      Say(fmt::format("Model pushed to {}", *url));
      return kExitOk;
    }
    const std::string later =
        worker::PublishLaterCommand(place.pretrained.string(), *line.push_to_hub, line.is_private);
    result["publish_error"] = failed.message();
    result["publish_later"] = later;
    Say(
        fmt::format("lerobot-convert-dcp: not published: {}\nthe weights are in '{}'; to publish "
                    "them later:\n  {}",
                    failed.message(),
                    place.pretrained.string(),
                    later));
  }
  return kExitPublishFailed;
}

Json Describe(const Conversion& conversion) {
  return {{"result", conversion.was_there ? "was_there" : "converted"},
          {"output", conversion.output.string()},
          {"tensors", conversion.tensors},
          {"bytes", conversion.bytes},
          {"crc32", conversion.checksum},
          {"deleted_dcp", conversion.deleted_shards}};
}

void SayDone(const Conversion& conversion, double seconds) {
  for (const std::string& note : conversion.notes) {
    Say("note: " + note);
  }
  Say(fmt::format("{} '{}': {} tensors, {} bytes, verified{}{}",
                  conversion.was_there ? "already there:" : "wrote",
                  conversion.output.string(),
                  conversion.tensors,
                  conversion.bytes,
                  conversion.was_there ? "" : fmt::format(" ({:.1f} s)", seconds),
                  conversion.deleted_shards ? "; the shards are removed" : ""));
}

/// Converts if there is something to convert.
Result<Json> DoWork(const CommandLine& line, const CheckpointPlace& place) {
  const PlaceFacts facts = LookAt(place);
  const WorkDecision decision =
      DecideWork(facts, place.shards().string(), line.push_to_hub.has_value());
  if (decision.work == Work::kRefuse) {
    return NotFound("{}", decision.reason);
  }
  if (decision.work == Work::kNothing) {
    const std::filesystem::path weights = place.pretrained / facts.weights;
    LR_TRY(worker::ReadSafetensorsHeader(weights));
    LR_ASSIGN(const std::vector<std::string> notes, RemoveLeftovers(place));
    for (const std::string& note : notes) {
      Say("note: " + note);
    }
    Say(decision.reason);
    return Json{{"result", "nothing_to_do"}, {"output", weights.string()}};
  }
  const auto start = std::chrono::steady_clock::now();
  ConversionOptions options;
  options.delete_shards = line.delete_dcp;
  options.progress = ShowProgress(line.json);
  LR_ASSIGN(const Conversion conversion, Convert(place, options));
  SayDone(conversion,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return Describe(conversion);
}

int Main(const std::vector<std::string>& args) {
  const Result<CommandLine> parsed = ParseCommandLine(args);
  if (!parsed.ok()) {
    return Fail({}, kExitUsage, parsed.status().message());
  }
  const CommandLine& line = *parsed;
  if (!line.help.empty()) {
    fmt::print("{}", line.help);
    return kExitOk;
  }
  const Result<CheckpointPlace> place = LocatePlace(line.checkpoint_dir);
  if (!place.ok()) {
    return Fail(line, kExitFailed, "--checkpoint_dir: " + place.status().message());
  }
  if (line.list || line.verify) {
    return line.list ? List(line, *place) : Verify(line, *place);
  }
  Result<Json> result = DoWork(line, *place);
  if (!result.ok()) {
    return Fail(line, kExitFailed, result.status().message());
  }
  const int code = line.push_to_hub ? PublishFolder(line, *place, *result) : kExitOk;
  if (line.json) {
    fmt::print("{}\n", result->dump(1));
  }
  return code;
}

}  // namespace
}  // namespace lr

int main(int argc, char** argv) {
  return lr::Main({argv + 1, argv + argc});
}
