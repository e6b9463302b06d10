#include "launcher/cli/endpoint_planner.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "common/base/text.h"
#include "launcher/cli/option_values.h"
#include "launcher/cli/rendezvous_conf.h"

namespace lr::launcher {
namespace {

constexpr int kStaticPort = 29500;
constexpr int kC10dPort = 29400;

/// The address of node 0 as the options give it, in either of torchrun's two forms.
struct GivenAddress {
  std::optional<HostAndPort> endpoint;  ///< --rdzv-endpoint
  std::optional<std::string> master_addr;
  std::optional<int> master_port;
};

Result<GivenAddress> ReadAddress(const CommandLine& line) {
  GivenAddress given;
  if (!line.text(Option::kRdzvEndpoint).empty()) {
    LR_ASSIGN(given.endpoint,
              ReadEndpoint(line.text(Option::kRdzvEndpoint), line.spelled(Option::kRdzvEndpoint)));
  }
  if (line.has(Option::kMasterAddr)) {
    LR_ASSIGN(const HostAndPort host,
              ReadEndpoint(line.text(Option::kMasterAddr), line.spelled(Option::kMasterAddr)));
    if (host.port) {
      return InvalidArgument("{}: takes a host only; the port is --master-port",
                             line.spelled(Option::kMasterAddr));
    }
    given.master_addr = host.host;
  }
  if (line.has(Option::kMasterPort)) {
    LR_ASSIGN(
        given.master_port,
        ReadWhole(line.text(Option::kMasterPort), line.spelled(Option::kMasterPort), 0, 65535));
  }
  return given;
}

/// with the static backend both forms mean the same thing, so different values are a mistake.
Status CheckOneAddress(const CommandLine& line, const GivenAddress& given) {
  if (!given.endpoint) {
    return {};
  }
  if (given.master_addr && *given.master_addr != given.endpoint->host) {
    return InvalidArgument("{} and {} name different hosts; give one of them",
                           line.spelled(Option::kRdzvEndpoint),
                           line.spelled(Option::kMasterAddr));
  }
  if (given.master_port && given.endpoint->port && *given.master_port != *given.endpoint->port) {
    return InvalidArgument("{} and {} name different ports; give one of them",
                           line.spelled(Option::kRdzvEndpoint),
                           line.spelled(Option::kMasterPort));
  }
  return {};
}

Status CheckBackend(const CommandLine& line) {
  const std::string backend = line.text(Option::kRdzvBackend);
  if (backend == "etcd" || backend == "etcd-v2") {
    return InvalidArgument(
        "{}: no etcd is needed here; use --rdzv-backend=c10d --rdzv-endpoint=HOST:PORT with the "
        "host of one node",
        line.spelled(Option::kRdzvBackend));
  }
  return CheckWord(backend, line.spelled(Option::kRdzvBackend), {"static", "c10d"});
}

/// the identity that all nodes of a run share.
std::string RunIdentity(const CommandLine& line, bool one_node, const std::string& random_id) {
  constexpr size_t kShort = 12;
  const std::string id = line.text(Option::kRdzvId);
  const bool standalone = line.flag(Option::kStandalone);
  if (!standalone && !id.empty() && id != "none") {
    return id;
  }
  return one_node ? random_id.substr(0, kShort) : "";
}

/// One node: only the workers' store needs an address.
void PlanOneNode(const CommandLine& line,
                 const GivenAddress& given,
                 bool is_static,
                 EndpointPlan& endpoint) {
  endpoint.standalone = true;
  if (line.flag(Option::kStandalone)) {
    return;
  }
  endpoint.host = given.endpoint ? given.endpoint->host : given.master_addr.value_or("");
  if (!is_static) {
    return;  // c10d: the endpoint's port is the rendezvous', which one node does not need
  }
  const std::optional<int> port =
      given.endpoint && given.endpoint->port ? given.endpoint->port : given.master_port;
  endpoint.worker_port = port.value_or(given.endpoint ? kStaticPort : 0);
  endpoint.worker_port_explicit = port && *port != 0;
  if (given.master_port && endpoint.host.empty()) {
    endpoint.host = line.text(Option::kMasterAddr);  // its default, as torchrun's workers see it
  }
}

Status PlanSeveralNodes(const CommandLine& line,
                        const GivenAddress& given,
                        bool is_static,
                        int max_nodes,
                        EndpointPlan& endpoint) {
  if (!given.endpoint && !(is_static && given.master_addr)) {
    return InvalidArgument(
        "--nnodes={}: the nodes need a place to meet; give every node the same "
        "--rdzv-endpoint=HOST[:PORT], HOST being node 0",
        max_nodes);
  }
  endpoint.host = given.endpoint ? given.endpoint->host : *given.master_addr;
  const std::optional<int> port =
      given.endpoint && given.endpoint->port ? given.endpoint->port : given.master_port;
  if (port && *port == 0) {
    return InvalidArgument(
        "port 0 (any free port) works on one node only; the other nodes could not know it");
  }
  if (is_static) {
    endpoint.worker_port = port.value_or(kStaticPort);
    endpoint.worker_port_explicit = port.has_value();
  } else {
    endpoint.control_port = given.endpoint->port.value_or(kC10dPort);
    endpoint.control_port_explicit = given.endpoint->port.has_value();
  }
  return {};
}

Status CheckNodeRange(
    const CommandLine& line, int min_nodes, int max_nodes, bool is_static, RendezvousPlan& plan) {
  if (line.flag(Option::kStandalone) && max_nodes > 1) {
    return InvalidArgument("--standalone is for one node, but {} asks for {}",
                           line.spelled(Option::kNnodes),
                           max_nodes);
  }
  if (line.has(Option::kSpares) && is_static) {
    return InvalidArgument("{}: with the static backend ranks belong to nodes; use c10d",
                           line.spelled(Option::kSpares));
  }
  if (line.has(Option::kGrow) && (is_static || min_nodes == max_nodes)) {
    return InvalidArgument("{}: only a run with --nnodes=MIN:MAX and c10d can grow",
                           line.spelled(Option::kGrow));
  }
  if (min_nodes == max_nodes) {
    return {};
  }
  if (!is_static) {
    return {};
  }
  plan.notes.push_back(fmt::format("{}: the static backend waits for exactly {} nodes",
                                   line.spelled(Option::kNnodes),
                                   max_nodes));
  return {};
}

void NoteOverridden(const CommandLine& line, bool is_static, RendezvousPlan& plan) {
  if (line.flag(Option::kStandalone)) {
    for (const Option option : {Option::kRdzvBackend, Option::kRdzvEndpoint, Option::kRdzvId}) {
      if (line.has(option)) {
        plan.notes.push_back(fmt::format("{} is overridden by --standalone", line.spelled(option)));
      }
    }
  }
  if (!is_static || line.flag(Option::kStandalone)) {
    for (const Option option : {Option::kMasterAddr, Option::kMasterPort}) {
      if (line.has(option)) {
        plan.notes.push_back(
            fmt::format("{} has no effect with {}",
                        line.spelled(option),
                        is_static ? "--standalone" : line.spelled(Option::kRdzvBackend)));
      }
    }
  }
}

}  // namespace

Result<RendezvousPlan> PlanRendezvous(const CommandLine& line,
                                      int min_nodes,
                                      int max_nodes,
                                      const std::string& random_id) {
  RendezvousPlan plan;
  LR_TRY(CheckBackend(line));
  LR_ASSIGN(const GivenAddress given, ReadAddress(line));
  const bool is_static = line.text(Option::kRdzvBackend) == "static";
  LR_TRY(CheckNodeRange(line, min_nodes, max_nodes, is_static, plan));
  if (is_static && !line.flag(Option::kStandalone)) {
    LR_TRY(CheckOneAddress(line, given));
  }
  if (max_nodes == 1) {
    PlanOneNode(line, given, is_static, plan.endpoint);
  } else {
    LR_TRY(PlanSeveralNodes(line, given, is_static, max_nodes, plan.endpoint));
  }
  LR_TRY(ApplyRendezvousConf(line, plan.endpoint, plan.notes));
  NoteOverridden(line, is_static, plan);
  plan.run_id = RunIdentity(line, max_nodes == 1, random_id);
  return plan;
}

}  // namespace lr::launcher
