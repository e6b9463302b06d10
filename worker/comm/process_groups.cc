#include "worker/comm/process_groups.h"

#include <cstdlib>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "worker/comm/exception_text.h"
#include "worker/comm/local_address.h"

#ifdef LR_CUDA
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace lr::worker {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

StorePtr OpenStore(const WorkerEnvironment& environment, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0 && !environment.use_agent_store;
  options.numWorkers = environment.world_size;
  options.waitWorkers = !environment.use_agent_store;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  // A restarted group must not read the keys of the attempt before it when the agent's store
  // outlives the workers.
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("worker/{}", environment.restart_count),
                                                store);
}

/// The members of one group; everything in its name is under one prefix of the store, so that the
/// order in which groups are made does not matter.
struct GroupPlan {
  std::string name;
  int rank = 0;
  int size = 1;
};

c10::intrusive_ptr<c10d::ProcessGroupGloo> MakeGloo(const StorePtr& store,
                                                    const GroupPlan& plan,
                                                    const WorkerEnvironment& environment,
                                                    std::chrono::milliseconds timeout,
                                                    int threads) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->timeout = timeout;
  options->threads = threads;
  const char* interface = std::getenv(
      "GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe): nobody writes the environment
  options->devices.push_back(interface != nullptr
                                 ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                 : c10d::ProcessGroupGloo::createDeviceForHostname(
                                       LocalAddressTowards(environment.master_addr)));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(plan.name + "/gloo", store),
      plan.rank,
      plan.size,
      options);
}

/// Null for one member.
GroupPtr MakeTensorGroup(const StorePtr& store,
                         const GroupPlan& plan,
                         const WorkerEnvironment& environment,
                         const ProcessGroupOptions& options) {
  if (plan.size == 1) {
    return {};
  }
  auto group = c10::make_intrusive<c10d::ProcessGroup>(
      c10::make_intrusive<c10d::PrefixStore>(plan.name, store), plan.rank, plan.size);
  using BackendType = c10d::ProcessGroup::BackendType;
  group->setBackend(c10::DeviceType::CPU,
                    BackendType::GLOO,
                    MakeGloo(store, plan, environment, options.timeout, 2));
  BackendType default_backend = BackendType::GLOO;
#ifdef LR_CUDA
  if (options.cuda) {
    auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
    nccl_options->timeout = options.timeout;
    group->setBackend(c10::DeviceType::CUDA,
                      BackendType::NCCL,
                      c10::make_intrusive<c10d::ProcessGroupNCCL>(
                          c10::make_intrusive<c10d::PrefixStore>(plan.name + "/nccl", store),
                          plan.rank,
                          plan.size,
                          nccl_options));
    group->setBoundDeviceId(
        c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(options.device_index)));
    default_backend = BackendType::NCCL;
  }
#endif
  group->setDefaultBackend(default_backend);
  group->setGroupName(plan.name);
  return group;
}

ShardGroups MakeShardGroups(const StorePtr& store,
                            const WorkerEnvironment& environment,
                            const ProcessGroupOptions& options) {
  const auto make = [&](const GroupPlan& plan) {
    return MakeTensorGroup(store, plan, environment, options);
  };
  ShardGroups groups;
  groups.shard_size = options.shard_size;
  groups.shard_rank = environment.rank % options.shard_size;
  groups.replicate_size = environment.world_size / options.shard_size;
  const int replica = environment.rank / options.shard_size;
  if (c10d::debug_level() == c10d::DebugLevel::Detail) {
    groups.compared = std::make_shared<ComparedStarts>();
  }
  groups.world = make({"data", environment.rank, environment.world_size});
  groups.gather =
      make({fmt::format("shard/{}/gather", replica), groups.shard_rank, options.shard_size});
  groups.reduce =
      make({fmt::format("shard/{}/reduce", replica), groups.shard_rank, options.shard_size});
  if (options.shard_size > 1) {
    groups.replicate =
        make({fmt::format("replicate/{}", groups.shard_rank), replica, groups.replicate_size});
  }
  return groups;
}

}  // namespace

Result<std::unique_ptr<ProcessGroups>> ProcessGroups::Create(const WorkerEnvironment& environment,
                                                             const ProcessGroupOptions& options) {
  std::unique_ptr<ProcessGroups> groups(new ProcessGroups());
  if (environment.world_size == 1) {
    groups->control_ = std::make_unique<Communicator>(nullptr, 0, 1);
    return groups;
  }
  try {
    c10d::setDebugLevelFromEnvironment();
  } catch (const std::exception& error) {
    return InvalidArgument("{}", FirstLine(error));
  }
#ifndef LR_CUDA
  if (options.cuda) {
    return FailedPrecondition(
        "{} processes on cuda need NCCL, and this build has none: build with the preset 'gpu'",
        environment.world_size);
  }
#endif
  try {
    const StorePtr store = OpenStore(environment, options.timeout);
    groups->shards_ = MakeShardGroups(store, environment, options);
    const GroupPlan control = {"control", environment.rank, environment.world_size};
    groups->control_ =
        std::make_unique<Communicator>(MakeGloo(store, control, environment, options.timeout, 1),
                                       environment.rank,
                                       environment.world_size);
  } catch (const std::exception& error) {
    return Unavailable("rank {} of {} could not meet the others at {}:{}: {}",
                       environment.rank,
                       environment.world_size,
                       environment.master_addr,
                       environment.master_port,
                       FirstLine(error));
  }
  return groups;
}

std::vector<GroupSequence> ProcessGroups::Sequences() const {
  std::vector<GroupSequence> sequences;
  for (const GroupPtr& group : {shards_.world, shards_.gather, shards_.reduce, shards_.replicate}) {
    if (group) {
      sequences.push_back(
          {group->getGroupName(), static_cast<int64_t>(group->getSequenceNumberForGroup())});
    }
  }
  if (control_->size() > 1) {
    sequences.push_back({"control", control_->entered()});
  }
  return sequences;
}

ProcessGroups::~ProcessGroups() {
  control_.reset();
  shards_ = {};
}

}  // namespace lr::worker
