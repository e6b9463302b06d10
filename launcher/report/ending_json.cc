#include "launcher/report/ending_json.h"

#include "launcher/plan/failure_label.h"

namespace lr::launcher {
namespace {

constexpr double kSecond = 1e9;  // nanoseconds

}  // namespace

Json EndingToJson(const WorkerEnding& ending) {
  return {{"rank", ending.rank},
          {"local_rank", ending.local_rank},
          {"node_rank", ending.node_rank},
          {"host", ending.host_name},
          {"pid", ending.pid},
          {"exit_code", ending.signal == 0 ? Json(ending.exit_code) : Json()},
          {"signal", ending.signal == 0 ? Json() : Json(SignalName(ending.signal))},
          {"stopped_by_launcher", ending.stopped_by_us},
          {"how", DescribeEnding(ending)},
          {"message", ending.message},
          {"duration_s", static_cast<double>(ending.end_unix_ns - ending.start_unix_ns) / kSecond}};
}

}  // namespace lr::launcher
