#include "tools/lr_ctl/checkpoint_command.h"

#include <chrono>
#include <cstdio>
#include <memory>

#include <grpcpp/grpcpp.h>

#include "proto/lr/v1/run.grpc.pb.h"

#include "common/contract/exit_codes.h"
#include "tools/lr_ctl/run_query.h"

namespace lr {
namespace {

constexpr int kExitFailed = 1;
constexpr auto kAnswerLimit = std::chrono::seconds(10);
constexpr auto kWaitLimit = std::chrono::hours(1);

Json ToJson(const v1::RunCheckpointReply& reply) {
  return {{"id", reply.id()},
          {"state", reply.state()},
          {"stop", reply.stop()},
          {"step", reply.step()},
          {"directory", reply.directory()},
          {"bytes", reply.bytes()},
          {"agree_s", reply.agree_s()},
          {"write_s", reply.write_s()},
          {"publish_s", reply.publish_s()},
          {"slowest_ranks", std::vector<int>(reply.slowest().begin(), reply.slowest().end())},
          {"reason", reply.reason()}};
}

std::string ToText(const v1::RunCheckpointReply& reply) {
  const std::string why = reply.reason().empty() ? "" : fmt::format(" ({})", reply.reason());
  if (reply.state() == "accepted") {
    return fmt::format(
        "request {} is accepted; all ranks save at the same step{}", reply.id(), why);
  }
  if (reply.state() == "running") {
    return fmt::format("the checkpoint of step {} is being written", reply.step());
  }
  if (reply.state() == "complete") {
    return fmt::format(
        "checkpoint of step {} is complete: {}{}", reply.step(), reply.directory(), why);
  }
  return fmt::format("checkpoint {}: {}", reply.state(), reply.reason());
}

}  // namespace

int RequestCheckpoint(const FoundRun& run, const CheckpointOptions& options) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       (options.wait ? std::chrono::seconds(kWaitLimit) : kAnswerLimit));
  v1::RunCheckpointRequest request;
  request.set_id(options.id);
  request.set_stop(options.stop);
  request.set_wait(options.wait);
  request.set_only_when_started(options.only_when_started);
  request.set_within_ms(static_cast<int64_t>(options.within_s * 1000));
  const std::unique_ptr<v1::RunControl::Stub> stub = ConnectTo(run);
  const auto stream = stub->Checkpoint(&context, request);
  v1::RunCheckpointReply reply;
  std::string state;
  while (stream->Read(&reply)) {
    state = reply.state();
    fmt::print("{}\n", options.json ? ToJson(reply).dump() : ToText(reply));
    std::fflush(stdout);
  }
  const grpc::Status status = stream->Finish();
  if (state == "complete" || (state == "accepted" && !options.wait)) {
    return kExitOk;  // also when the run ended right behind its answer
  }
  if (state != "failed" && state != "skipped") {
    fmt::print(stderr,
               "lr-ctl: run {}: {}\n",
               run.run_id(),
               status.ok() ? "no answer came" : status.error_message());
  }
  return kExitFailed;
}

}  // namespace lr
