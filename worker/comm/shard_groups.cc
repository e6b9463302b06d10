/// Collectives of the sharded engine over c10d.
#include "worker/comm/shard_groups.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

namespace lr::worker {

namespace {

void Reduce(const ShardGroups& groups,
            const GroupPtr& group,
            c10d::ReduceOp::RedOpType kind,
            std::string doing,
            at::Tensor& values) {
  std::vector<at::Tensor> list = {values};
  c10d::AllreduceOptions options;
  options.reduceOp = kind;
  Collective(
      group,
      groups.compared,
      std::move(doing),
      values,
      [list, options](c10d::Backend& backend) mutable { return backend.allreduce(list, options); })
      .Wait();
}

void Sum(const ShardGroups& groups, const GroupPtr& group, std::string doing, at::Tensor& values) {
  Reduce(groups, group, c10d::ReduceOp::SUM, std::move(doing), values);
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

Collective StartGather(const ShardGroups& groups, const std::string& of, at::Tensor& buffer) {
  const int64_t part = buffer.numel() / groups.shard_size;
  at::Tensor own = buffer.narrow(0, groups.shard_rank * part, part);
  return {groups.gather,
          groups.compared,
          "gather of " + of,
          buffer,
          [buffer, own](c10d::Backend& backend) mutable {
            return backend.all_gather_single(buffer, own, {});
          }};
}

PendingReduction::PendingReduction(const ShardGroups& groups, std::string of, at::Tensor rows)
    : groups_(groups), of_(std::move(of)), rows_(std::move(rows)) {
  if (!groups_.reduce) {
    received_ = rows_;
    return;
  }
  received_ = at::empty_like(rows_);
  at::Tensor sent = Bytes(rows_.flatten());
  at::Tensor got = Bytes(received_.flatten());
  exchange_ = {groups_.reduce,
               groups_.compared,
               "reduction of " + of_,
               rows_,
               [got, sent](c10d::Backend& backend) mutable {
                 std::vector<int64_t> equal;
                 return backend.all_to_all_single(got, sent, equal, equal, {});
               }};
}

at::Tensor PendingReduction::Wait() {
  exchange_.Wait();
  at::Tensor sum = SumRows(received_);
  rows_.reset();
  received_.reset();
  Sum(groups_, groups_.replicate, "reduction over the replicas of " + of_, sum);
  return sum;
}

void SumOverWorld(const ShardGroups& groups, const std::string& of, at::Tensor& values) {
  Sum(groups, groups.world, "sum of " + of, values);
}

void SumOverShards(const ShardGroups& groups, const std::string& of, at::Tensor& values) {
  Sum(groups, groups.reduce, "sum of " + of, values);
}

void MaxOverShards(const ShardGroups& groups, const std::string& of, at::Tensor& values) {
  Reduce(groups, groups.reduce, c10d::ReduceOp::MAX, "maximum of " + of, values);
}

at::Tensor GatherOverWorld(const ShardGroups& groups,
                           const std::string& of,
                           const at::Tensor& values) {
  at::Tensor own = values.detach().contiguous();
  if (own.dim() == 0) {
    own = own.unsqueeze(0);
  }
  std::vector<int64_t> shape = own.sizes().vec();
  shape[0] *= groups.world_size();
  at::Tensor all = at::empty(shape, own.options());
  if (!groups.world) {
    return all.copy_(own);
  }
  if (own.numel() > 0) {
    at::Tensor sent = Bytes(own.flatten());
    at::Tensor got = Bytes(all.flatten());
    Collective(groups.world,
               groups.compared,
               "gather of " + of,
               own,
               [got, sent](c10d::Backend& backend) mutable {
                 return backend.all_gather_single(got, sent, {});
               })
        .Wait();
  }
  return all;
}

void BroadcastOverWorld(const ShardGroups& groups, const std::string& of, at::Tensor& values) {
  std::vector<at::Tensor> list = {values};
  Collective(groups.world,
             groups.compared,
             "broadcast of " + of,
             values,
             [list](c10d::Backend& backend) mutable { return backend.broadcast(list, {}); })
      .Wait();
}

}  // namespace lr::worker
