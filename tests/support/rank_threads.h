#pragma once
/// Ranks as threads over real Gloo groups on loopback: RunRanks(4, [](Communicator& c) { … }).

#include <functional>
#include <thread>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "worker/comm/communicator.h"

namespace lr::testing {

inline c10::intrusive_ptr<c10d::ProcessGroupGloo> MakeGloo(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->timeout = std::chrono::seconds(20);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

/// A dispatching group as the engines use it, with Gloo for CPU tensors.
inline c10::intrusive_ptr<c10d::ProcessGroup> MakeDataGroup(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(
      c10::make_intrusive<c10d::PrefixStore>("group", store), rank, size);
  group->setBackend(c10::DeviceType::CPU,
                    c10d::ProcessGroup::BackendType::GLOO,
                    MakeGloo(c10::make_intrusive<c10d::PrefixStore>("gloo", store), rank, size));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setGroupName("data");
  return group;
}

/// Runs `body(store, rank)` on one thread per rank and joins them.
inline void RunRankThreads(
    int size, const std::function<void(const c10::intrusive_ptr<c10d::Store>&, int)>& body) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { body(store, rank); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

inline void RunRanks(int size, const std::function<void(worker::Communicator&)>& body) {
  RunRankThreads(size, [&](const c10::intrusive_ptr<c10d::Store>& store, int rank) {
    worker::Communicator communicator(
        size == 1 ? nullptr : MakeGloo(store, rank, size), rank, size);
    body(communicator);
  });
}

}  // namespace lr::testing
