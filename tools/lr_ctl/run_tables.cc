#include "tools/lr_ctl/run_tables.h"

#include <algorithm>

#include <fmt/format.h>

namespace lr {

namespace {

std::string Text(const Json& json, const char* key) {
  if (!json.contains(key) || json[key].is_null()) {
    return "-";
  }
  return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
}

double Number(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
}

const Json& Workers(const Json& run) {
  static const Json kNone = Json::array();
  return run.contains("workers") && run["workers"].is_array() ? run["workers"] : kNone;
}

/// Cut to `width` with a dot at the end that says so.
std::string Cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

}  // namespace

std::string RunsTable(const Json& runs) {
  if (runs.empty()) {
    return "no run of yours is on record on this machine";
  }
  std::string out = fmt::format("{:<26} {:<10} {:>5} {:>13} {:>10} {:>9}",
                                "RUN",
                                "STATE",
                                "RANKS",
                                "STEP",
                                "LOSS",
                                "SAMPLES/S");
  for (const Json& run : runs) {
    double step = 0;
    double total = 0;
    double loss = 0;
    double rate = 0;
    for (const Json& worker : Workers(run)) {
      step = std::max(step, Number(worker, "step"));
      total = std::max(total, Number(worker, "total_steps"));
      loss += Number(worker, "loss") / static_cast<double>(Workers(run).size());
      rate += Number(worker, "samples_per_s") / static_cast<double>(Workers(run).size());
    }
    const bool trains = total > 0;
    out += fmt::format("\n{:<26} {:<10} {:>5} {:>13} {:>10} {:>9}",
                       Cut(Text(run, "run_id"), 26),
                       Text(run, "state"),
                       Text(run, "world_size"),
                       trains ? fmt::format("{:.0f}/{:.0f}", step, total) : "-",
                       trains ? fmt::format("{:.3f}", loss) : "-",
                       rate > 0 ? fmt::format("{:.0f}", rate) : "-");
  }
  return out;
}

std::string RunDetail(const Json& run) {
  std::string out =
      fmt::format("run        {}\nstate      {}\n", Text(run, "run_id"), Text(run, "state"));
  if (run.contains("reason")) {
    out += fmt::format("reason     {}\n", Text(run, "reason"));
  }
  out += fmt::format("directory  {}\nmaster     {}\n", Text(run, "directory"), Text(run, "master"));
  if (run.contains("last_checkpoint")) {
    out += fmt::format("checkpoint step {}: {}\n",
                       Text(run["last_checkpoint"], "step"),
                       Text(run["last_checkpoint"], "directory"));
  }
  if (run.contains("nodes") && run["nodes"].is_array()) {
    for (const Json& node : run["nodes"]) {
      out += fmt::format("node {:<5} {} ({}), {} workers from rank {}\n",
                         Text(node, "node_rank"),
                         Text(node, "host"),
                         Text(node, "address"),
                         Text(node, "workers"),
                         Text(node, "first_rank"));
    }
  }
  for (const Json& worker : Workers(run)) {
    out +=
        fmt::format("rank {:<5} {:<10} step {:.0f}/{:.0f}  loss {:.3f}  {:.0f} samples/s\n",
                    Text(worker, "rank"),
                    worker.contains("goodbye") && worker["goodbye"] != "" ? Text(worker, "goodbye")
                                                                          : Text(worker, "phase"),
                    Number(worker, "step"),
                    Number(worker, "total_steps"),
                    Number(worker, "loss"),
                    Number(worker, "samples_per_s"));
  }
  out.pop_back();
  return out;
}

}  // namespace lr
