#pragma once
/// Accelerators of several ranks as threads of one process, over real Gloo groups on loopback.

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/base/status.h"
#include "common/contract/worker_environment.h"
#include "worker/accelerator/accelerator.h"

namespace lr::testing {

/// `shard` = 0: no sharded engine; else ranks lie in rows of that many.
inline worker::EngineOptions Layout(int world, int shard, int64_t accumulation = 1) {
  worker::EngineOptions options;
  options.gradient_accumulation_steps = accumulation;
  options.step_scheduler_with_optimizer = true;
  options.topology = {.dp_replicate = shard == 0 ? world : world / shard,
                      .dp_shard = shard == 0 ? 1 : shard,
                      .uses_sharded_engine = shard != 0};
  return options;
}

/// Runs `body` on one thread per rank of the layout, each with an Accelerator of its own.
inline void RunAccelerators(const worker::EngineOptions& options,
                            const std::function<void(Accelerator&)>& body) {
  const auto world = static_cast<int>(options.topology.dp_world_size());
  c10d::TCPStoreOptions store_options;
  store_options.isServer = true;
  store_options.waitWorkers = false;
  store_options.port = 0;
  c10d::TCPStore store("127.0.0.1", store_options);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      WorkerEnvironment environment;
      environment.rank = environment.local_rank = rank;
      environment.world_size = environment.local_world_size = world;
      environment.master_addr = "127.0.0.1";
      environment.master_port = store.getPort();
      environment.use_agent_store = true;
      auto accelerator = Accelerator::Create(options, environment);
      ASSERT_TRUE(accelerator.ok()) << accelerator.status().message();
      body(**accelerator);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace lr::testing
