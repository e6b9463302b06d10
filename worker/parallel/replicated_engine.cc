#include "worker/parallel/replicated_engine.h"

#include <unordered_map>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/nn/module.h>

#include "worker/comm/exception_text.h"

namespace lr::worker {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kFirstBucketBytes = 1 * kMiB;
constexpr int64_t kBucketBytes = 25 * kMiB;
constexpr size_t kBroadcastBytes = 250 * kMiB;

}  // namespace

void PlainEngine::Backward(const at::Tensor& loss, bool /*sync*/) {
  loss.backward();
}

ReplicatedEngine::ReplicatedEngine(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                   const ReplicatedOptions& options)
    : group_(std::move(group)), options_(options) {}

ReplicatedEngine::~ReplicatedEngine() {
  // The logger and the reducer hold works and tensors of the group: they go before it.
  logger_.reset();
  reducer_.reset();
}

Result<std::unique_ptr<ReplicatedEngine>> ReplicatedEngine::Create(
    torch::nn::Module& module,
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    const ReplicatedOptions& options) {
  std::unique_ptr<ReplicatedEngine> engine(new ReplicatedEngine(std::move(group), options));
  try {
    engine->Build(module);
  } catch (const std::exception& error) {
    return FailedPrecondition("the model could not be replicated: {}", FirstLine(error));
  }
  return engine;
}

void ReplicatedEngine::Build(torch::nn::Module& module) {
  std::vector<at::Tensor> trainable;
  std::vector<at::Tensor> all;
  std::unordered_map<size_t, std::string> names;
  for (const auto& item : module.named_parameters()) {
    all.push_back(item.value().detach());
    if (item.value().requires_grad()) {
      names[trainable.size()] = item.key();
      trainable.push_back(item.value());
    }
  }
  TORCH_CHECK(!trainable.empty(), "the module has no parameter that requires a gradient");
  c10d::verify_params_across_processes(group_, trainable, std::nullopt);
  for (const at::Tensor& buffer : module.buffers()) {
    all.push_back(buffer);
    if (options_.broadcast_buffers) {
      buffers_.push_back(buffer);
    }
  }
  c10d::broadcast_coalesced(group_, all, kBroadcastBytes, 0);

  // One unlimited first bucket (rebuilt in gradient order later) unless unused parameters are
  // looked for.
  const bool rebuilt = options_.static_graph || !options_.find_unused_parameters;
  const std::vector<size_t> limits = rebuilt
                                         ? std::vector<size_t>{std::numeric_limits<int32_t>::max()}
                                         : std::vector<size_t>{kFirstBucketBytes, kBucketBytes};
  auto [buckets, caps] = c10d::compute_bucket_assignment_by_size(trainable, limits, {}, {}, {});
  const std::vector<std::vector<size_t>> reversed(buckets.rbegin(), buckets.rend());
  reducer_ = std::make_shared<c10d::Reducer>(trainable,
                                             reversed,
                                             group_,
                                             std::vector<bool>(trainable.size(), false),
                                             kBucketBytes,
                                             options_.find_unused_parameters,
                                             options_.gradient_as_bucket_view,
                                             names,
                                             kFirstBucketBytes,
                                             /*skip_all_reduce_unused_params=*/false,
                                             /*use_python_reducer=*/false,
                                             std::vector<int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  if (options_.static_graph) {
    reducer_->set_static_graph();
  }
}

void ReplicatedEngine::BeginForward(const std::vector<at::Tensor*>& /*inputs*/, bool sync) {
  if (!at::GradMode::is_enabled() || !sync) {
    return;
  }
  reducer_->prepare_for_forward();
  if (reducer_->should_rebuild_buckets()) {
    reducer_->rebuild_buckets();
  }
  if (!buffers_.empty()) {
    c10d::broadcast_coalesced(group_, buffers_, kBroadcastBytes, 0);
  }
}

void ReplicatedEngine::EndForward(const std::vector<at::Tensor*>& outputs, bool sync) {
  if (!at::GradMode::is_enabled() || !sync) {
    return;
  }
  const bool look = options_.find_unused_parameters && !options_.static_graph;
  std::vector<at::Tensor> roots;
  for (const at::Tensor* output : outputs) {
    if (look) {
      roots.push_back(*output);
    }
  }
  reducer_->prepare_for_backward(roots);
}

void ReplicatedEngine::Backward(const at::Tensor& loss, bool /*sync*/) {
  loss.backward();
}

}  // namespace lr::worker
