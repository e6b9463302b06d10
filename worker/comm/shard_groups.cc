/// Collectives of the sharded engine over c10d.
#include "worker/comm/shard_groups.h"

#include <utility>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

namespace lr::worker {

namespace {

void Sum(const GroupPtr& group, at::Tensor& values) {
  if (group) {
    std::vector<at::Tensor> list = {values};
    group->allreduce(list)->wait();
  }
}

/// The backend itself: it moves bytes, whatever they mean.
c10::intrusive_ptr<c10d::Backend> BackendOf(const GroupPtr& group, const at::Tensor& tensor) {
  return group->getBackend(tensor.device().type());
}

at::Tensor Bytes(const at::Tensor& tensor) {
  return tensor.view(at::kByte);
}

/// Row by row in float32 at least, so that the result does not depend on the transport.
at::Tensor SumRows(const at::Tensor& rows) {
  const at::ScalarType dtype = rows.scalar_type();
  const bool is_half = dtype == at::kHalf || dtype == at::kBFloat16;
  at::Tensor sum = is_half ? rows[0].to(at::kFloat) : rows[0].clone();
  for (int64_t i = 1; i < rows.size(0); ++i) {
    sum.add_(rows[i]);
  }
  return is_half ? sum.to(dtype) : sum;
}

}  // namespace

WorkPtr StartGather(const ShardGroups& groups, at::Tensor& buffer) {
  if (!groups.gather) {
    return {};
  }
  const int64_t part = buffer.numel() / groups.shard_size;
  at::Tensor own = buffer.narrow(0, groups.shard_rank * part, part);
  return BackendOf(groups.gather, buffer)->all_gather_single(buffer, own, {});
}

PendingReduction::PendingReduction(const ShardGroups& groups, at::Tensor rows)
    : groups_(groups), rows_(std::move(rows)) {
  if (!groups_.reduce) {
    received_ = rows_;
    return;
  }
  received_ = at::empty_like(rows_);
  at::Tensor sent = Bytes(rows_.flatten());
  at::Tensor got = Bytes(received_.flatten());
  std::vector<int64_t> equal;
  work_ = BackendOf(groups_.reduce, rows_)->all_to_all_single(got, sent, equal, equal, {});
}

at::Tensor PendingReduction::Wait() {
  if (work_) {
    work_->wait();
  }
  at::Tensor sum = SumRows(received_);
  rows_.reset();
  received_.reset();
  Sum(groups_.replicate, sum);
  return sum;
}

void SumOverWorld(const ShardGroups& groups, at::Tensor& values) {
  Sum(groups.world, values);
}

void SumOverShards(const ShardGroups& groups, at::Tensor& values) {
  Sum(groups.reduce, values);
}

void BroadcastOverWorld(const ShardGroups& groups, at::Tensor& values) {
  if (groups.world) {
    std::vector<at::Tensor> list = {values};
    groups.world->broadcast(list)->wait();
  }
}

}  // namespace lr::worker
