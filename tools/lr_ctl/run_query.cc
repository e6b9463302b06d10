#include "tools/lr_ctl/run_query.h"

#include <grpcpp/grpcpp.h>

namespace lr {
namespace {

Json WorkersToJson(const v1::RunStatusReply& reply) {
  Json workers = Json::array();
  for (const v1::WorkerStatus& worker : reply.workers()) {
    workers.push_back({{"rank", worker.rank()},
                       {"pid", worker.pid()},
                       {"phase", worker.phase()},
                       {"phase_s", static_cast<double>(worker.phase_ms()) / 1000.0},
                       {"step", worker.step()},
                       {"total_steps", worker.total_steps()},
                       {"loss", worker.loss()},
                       {"samples_per_s", worker.samples_per_s()}});
  }
  return workers;
}

std::string Trouble(const FoundRun& run, const grpc::Status& status, std::chrono::seconds limit) {
  const std::string what = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
                               ? fmt::format("did not answer within {} s", limit.count())
                               : fmt::format("does not answer: {}", status.error_message());
  return fmt::format("run {}: lr-launch (pid {}) {}; this is its record on disk",
                     run.run_id(),
                     run.record.value("launcher_pid", int64_t{0}),
                     what);
}

}  // namespace

std::unique_ptr<v1::RunControl::Stub> ConnectTo(const FoundRun& run) {
  return v1::RunControl::NewStub(
      grpc::CreateChannel("unix:" + run.control_socket(), grpc::InsecureChannelCredentials()));
}

RunView QueryRun(const FoundRun& run, std::chrono::seconds limit) {
  RunView view{.record = run.record, .trouble = ""};
  if (run.alive && !run.ended() && !run.control_socket().empty()) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    v1::RunStatusReply reply;
    const grpc::Status status = ConnectTo(run)->Status(&context, {}, &reply);
    if (status.ok()) {
      Result<Json> live = ParseJson(reply.record_json());
      if (live.ok() && live->is_object()) {
        view.record = std::move(live).value();
      }
      view.record["workers"] = WorkersToJson(reply);
    } else {
      view.trouble = Trouble(run, status, limit);
    }
  }
  view.record["state"] = run.state();
  view.record["directory"] = run.directory;
  return view;
}

}  // namespace lr
