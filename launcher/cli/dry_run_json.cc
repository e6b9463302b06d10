/// (pure) The machine-readable form of --dry-run.

#include "common/io/json.h"
#include "launcher/cli/dry_run.h"
#include "launcher/plan/first_failure.h"

namespace lr::launcher {
namespace {

Json OptionsToJson(const LaunchPlan& plan) {
  Json options = Json::object();
  for (const ResolvedOption& option : plan.options) {
    options[option.name] = {{"value", option.value}, {"source", SourceText(option)}};
  }
  return options;
}

Json LimitsToJson(const RendezvousTimes& times) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  return {{"last_call_s", seconds(times.last_call)},
          {"reform_last_call_s", seconds(times.reform_last_call)},
          {"commit_s", seconds(times.commit)},
          {"heartbeat_s", seconds(times.heartbeat)},
          {"suspect_s", seconds(times.suspect)},
          {"lost_s", seconds(times.lost)},
          {"host_lost_s", seconds(times.host_lost)}};
}

Json MeetingToJson(const EndpointPlan& endpoint) {
  return {{"one_node", endpoint.standalone},
          {"host", endpoint.host},
          {"worker_port", endpoint.worker_port},
          {"control_port", endpoint.control_port},
          {"is_host", endpoint.is_host ? Json(*endpoint.is_host) : Json()},
          {"join_timeout_s", endpoint.join_timeout.count()},
          {"limits", LimitsToJson(endpoint.times)},
          {"token_file", endpoint.trust.token_file},
          {"tls",
           {{"ca", endpoint.trust.tls_authorities},
            {"cert", endpoint.trust.tls_certificate},
            {"key", endpoint.trust.tls_key},
            {"mutual", endpoint.trust.tls_mutual}}}};
}

Json PlanToJson(const LaunchPlan& plan) {
  Json signals = Json::array();
  for (const int signal : plan.signals) {
    signals.push_back(SignalName(signal));
  }
  return {{"min_nodes", plan.min_nodes},
          {"max_nodes", plan.max_nodes},
          {"node_rank", plan.node_rank ? Json(*plan.node_rank) : Json()},
          {"scheduler", plan.scheduler},
          {"scheduler_index", plan.scheduler_index ? Json(*plan.scheduler_index) : Json()},
          {"workers_here", plan.local_size},
          {"meeting", MeetingToJson(plan.endpoint)},
          {"run_id", plan.run_id},
          {"program", plan.program.executable},
          {"program_kind", plan.program.kind},
          {"native", plan.program.native},
          {"signals", std::move(signals)},
          {"shutdown_timeout_s", std::chrono::duration<double>(plan.shutdown_timeout).count()}};
}

Json WorkersToJson(const LaunchPlan& plan, const Variables& inherited) {
  Json workers = Json::array();
  for (const PlannedWorker& worker : PlannedWorkers(plan, inherited)) {
    workers.push_back({{"rank", worker.rank},
                       {"local_rank", worker.local_rank},
                       {"command", MaskedCommand(worker.command)},
                       {"cpus", worker.cpus},
                       {"environment", MaskedVariables(worker.variables)}});
  }
  return workers;
}

}  // namespace

std::string DryRunJson(const LaunchPlan& plan, const Variables& inherited) {
  const Json json = {{"options", OptionsToJson(plan)},
                     {"plan", PlanToJson(plan)},
                     {"workers", WorkersToJson(plan, inherited)},
                     {"inherited_environment", MaskedVariables(inherited)},
                     {"notes", plan.notes}};
  return DumpPythonJson(json, 2) + "\n";
}

}  // namespace lr::launcher
