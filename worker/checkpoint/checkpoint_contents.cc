#include "worker/checkpoint/checkpoint_contents.h"

#include <ATen/core/grad_mode.h>

#include "worker/checkpoint/optimizer_file.h"
#include "worker/checkpoint/scaler_file.h"
#include "worker/checkpoint/scheduler_file.h"

namespace lr::worker {
namespace {

at::Tensor HostCopy(const at::Tensor& tensor) {
  return tensor.detach().to(tensor.options().device(c10::DeviceType::CPU),
                            /*non_blocking=*/false,
                            /*copy=*/true,
                            c10::MemoryFormat::Contiguous);
}

NamedTensors HostCopies(const NamedTensors& tensors) {
  NamedTensors copies;
  copies.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    copies.emplace_back(name, HostCopy(tensor));
  }
  return copies;
}

uint64_t BytesOf(const NamedTensors& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += tensor.nbytes();
  }
  return bytes;
}

}  // namespace

CheckpointSnapshot TakeSnapshot(CheckpointContents contents) {
  const at::NoGradGuard no_grad;
  CheckpointSnapshot snapshot;
  snapshot.step = contents.step;
  snapshot.total_steps = contents.total_steps;
  snapshot.config_json = std::move(contents.config_json);
  snapshot.train_config_json = std::move(contents.train_config_json);
  if (contents.model) {
    snapshot.model = ResolveTies(*contents.model);
    if (!contents.model_is_copy) {
      snapshot.model->kept = HostCopies(snapshot.model->kept);
    }
  }
  for (const SideFile& file : contents.side_files) {
    const auto* tensors = std::get_if<NamedTensors>(&file.content);
    snapshot.side_files.push_back(tensors == nullptr ? file
                                                     : SideFile{file.name, HostCopies(*tensors)});
  }
  if (contents.optimizer != nullptr) {
    snapshot.optimizer = OptimizerSnapshot{HostCopies(OptimizerStateTensors(*contents.optimizer)),
                                           OptimizerParamGroups(*contents.optimizer)};
  }
  if (contents.scheduler != nullptr) {
    snapshot.scheduler = SchedulerState(*contents.scheduler);
  }
  if (contents.scaler != nullptr) {
    snapshot.scaler = ScalerStateJson(contents.scaler->state());
  }
  if (contents.rng) {
    snapshot.rng = HostCopies(RngTensors(*contents.rng));
  }
  snapshot.shards = std::move(contents.shards);
  for (ShardedFolder& folder : snapshot.shards) {
    folder.save.TakeSnapshot();
  }
  return snapshot;
}

uint64_t SnapshotBytes(const CheckpointSnapshot& snapshot) {
  uint64_t bytes = BytesOf(snapshot.rng);
  bytes += snapshot.model ? BytesOf(snapshot.model->kept) : 0;
  bytes += snapshot.optimizer ? BytesOf(snapshot.optimizer->state) : 0;
  for (const SideFile& file : snapshot.side_files) {
    const auto* tensors = std::get_if<NamedTensors>(&file.content);
    bytes += tensors != nullptr ? BytesOf(*tensors) : std::get<std::string>(file.content).size();
  }
  for (const ShardedFolder& folder : snapshot.shards) {
    bytes += folder.save.bytes();
  }
  return bytes + snapshot.config_json.size() + snapshot.train_config_json.size();
}

}  // namespace lr::worker
