/// Storage swap, flat gather and flat reduction of one unit.
#include "worker/parallel/sharded_unit.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include "common/base/check.h"

namespace lr::worker {

namespace {

/// Every slot starts at a multiple of this in a gather buffer, so that its bytes can be viewed in
/// its dtype.
constexpr int64_t kAlignment = 16;

int64_t AlignedBytes(const ShardSlot& slot) {
  const int64_t bytes =
      slot.layout.padded_numel() * static_cast<int64_t>(slot.gathered.element_size());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

c10::StorageImpl& StorageOf(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

void FreeStorage(const at::Tensor& tensor) {
  c10::StorageImpl& storage = StorageOf(tensor);
  storage.set_data_ptr_noswap(storage.allocator()->allocate(0));
  storage.set_nbytes(0);
}

void AllocateStorage(const at::Tensor& tensor) {
  c10::StorageImpl& storage = StorageOf(tensor);
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}

/// fp16 sums over many ranks overflow undivided and underflow when divided before: half of the
/// factor, in powers of two, goes before the sum.
double PreDivision(int64_t ranks, at::ScalarType dtype) {
  int64_t factor = 1;
  while (dtype == at::kHalf && ranks % factor == 0 && ranks / factor > factor) {
    factor *= 2;
  }
  return static_cast<double>(factor);
}

/// Copies a whole gradient into the columns of its slot, row r holding what rank r keeps.
void CopyByRank(const at::Tensor& gradient, const ShardLayout& layout, at::Tensor columns) {
  const int64_t part = layout.padded_numel();
  const int64_t full_ranks = layout.numel() / part;
  const int64_t rest = layout.numel() - full_ranks * part;
  const at::Tensor flat = gradient.contiguous().view({-1});
  columns.narrow(0, 0, full_ranks)
      .copy_(flat.narrow(0, 0, full_ranks * part).view({full_ranks, part}));
  if (rest > 0) {
    columns[full_ranks].narrow(0, 0, rest).copy_(flat.narrow(0, full_ranks * part, rest));
  }
}

void AddTo(at::Tensor& sum, const at::Tensor& value, at::ScalarType dtype) {
  if (!value.defined()) {
    return;
  }
  if (sum.defined()) {
    sum.add_(value);
  } else {
    sum = value.to(dtype);
  }
}

}  // namespace

ShardedUnit::ShardedUnit(std::string name,
                         std::vector<UnitParameter> parameters,
                         const ShardGroups& groups,
                         const ShardPrecision& precision,
                         bool cpu_offload)
    : name_(std::move(name)),
      title_(name_.empty() ? "the root unit" : "unit '" + name_ + "'"),
      groups_(groups),
      precision_(precision),
      cpu_offload_(cpu_offload) {
  const at::NoGradGuard no_grad;
  for (UnitParameter& parameter : parameters) {
    AddSlot(std::move(parameter));
  }
}

void ShardedUnit::AddSlot(UnitParameter parameter) {
  ShardSlot slot;
  slot.names = std::move(parameter.names);
  slot.leaf = std::move(parameter.parameter);
  slot.shape = slot.leaf.sizes().vec();
  slot.trainable = slot.leaf.requires_grad();
  slot.layout = ShardLayout(slot.shape[0], slot.leaf.numel() / slot.shape[0], groups_.shard_size);
  const int64_t part = slot.layout.padded_numel();
  const int64_t rows = slot.layout.RowsOf(groups_.shard_rank);
  const int64_t own = slot.layout.NumelOf(groups_.shard_rank);
  const at::Tensor whole = slot.leaf.detach().contiguous().view({-1});
  const at::Device home = cpu_offload_ ? at::Device(at::kCPU) : whole.device();
  slot.padded = at::zeros(
      {part}, whole.options().device(home).pinned_memory(cpu_offload_ && whole.is_cuda()));
  const int64_t first = slot.layout.FirstRow(groups_.shard_rank) * (whole.numel() / slot.shape[0]);
  slot.padded.narrow(0, 0, own).copy_(whole.narrow(0, first, own));
  std::vector<int64_t> shard_shape = slot.shape;
  shard_shape[0] = rows;
  slot.shard = slot.padded.narrow(0, 0, own).view(shard_shape).detach();
  slot.shard.set_requires_grad(slot.trainable);

  const bool is_cast = precision_.param_dtype && whole.is_floating_point();
  const at::ScalarType compute = is_cast ? *precision_.param_dtype : whole.scalar_type();
  slot.gathered = at::empty({groups_.shard_size * part}, whole.options().dtype(compute));
  slot.leaf.set_data(slot.gathered.narrow(0, 0, slot.layout.numel()).view(slot.shape));
  FreeStorage(slot.gathered);
  trainable_slots_ += slot.trainable ? 1 : 0;
  slots_.push_back(std::move(slot));
}

// ---- presence

at::Tensor ShardedUnit::FillGatherBuffer() const {
  int64_t part = 0;
  for (const ShardSlot& slot : slots_) {
    part += AlignedBytes(slot);
  }
  at::Tensor buffer =
      at::empty({groups_.shard_size * part}, slots_.front().gathered.options().dtype(at::kByte));
  int64_t offset = groups_.shard_rank * part;
  for (const ShardSlot& slot : slots_) {
    const int64_t bytes =
        slot.layout.padded_numel() * static_cast<int64_t>(slot.gathered.element_size());
    buffer.narrow(0, offset, bytes).view(slot.gathered.scalar_type()).copy_(slot.padded);
    offset += AlignedBytes(slot);
  }
  return buffer;
}

void ShardedUnit::StartGather() {
  if (state_ != State::kSharded || slots_.empty()) {
    return;
  }
  const at::NoGradGuard no_grad;
  buffer_ = FillGatherBuffer();
  gathering_ = lr::worker::StartGather(groups_, title_, buffer_);
  state_ = State::kGathering;
}

void ShardedUnit::FinishGather() {
  if (state_ == State::kPresent || slots_.empty()) {
    return;
  }
  StartGather();
  gathering_.Wait();
  const at::NoGradGuard no_grad;
  const at::Tensor by_rank = buffer_.view({groups_.shard_size, -1});
  int64_t offset = 0;
  for (ShardSlot& slot : slots_) {
    AllocateStorage(slot.gathered);
    const int64_t part = slot.layout.padded_numel();
    const int64_t bytes = part * static_cast<int64_t>(slot.gathered.element_size());
    slot.gathered.view({groups_.shard_size, part})
        .copy_(by_rank.narrow(1, offset, bytes).view(slot.gathered.scalar_type()));
    offset += AlignedBytes(slot);
  }
  buffer_.reset();
  state_ = State::kPresent;
}

void ShardedUnit::Release() {
  gathering_.Wait();
  if (state_ == State::kPresent) {
    for (const ShardSlot& slot : slots_) {
      FreeStorage(slot.gathered);
    }
  }
  buffer_.reset();
  state_ = State::kSharded;
}

ShardedUnit::Scratch ShardedUnit::StartScratchGather() const {
  const at::NoGradGuard no_grad;
  Scratch scratch;
  scratch.buffer = FillGatherBuffer();
  scratch.gather = lr::worker::StartGather(groups_, title_, scratch.buffer);
  return scratch;
}

// ---- gradients

at::ScalarType ShardedUnit::reduce_dtype() const {
  if (precision_.reduce_dtype) {
    return *precision_.reduce_dtype;
  }
  at::ScalarType dtype = at::ScalarType::Undefined;
  for (const ShardSlot& slot : slots_) {
    if (slot.trainable) {
      const at::ScalarType own = slot.padded.scalar_type();
      dtype = dtype == at::ScalarType::Undefined ? own : c10::promoteTypes(dtype, own);
    }
  }
  return dtype;
}

void ShardedUnit::Accumulate() {
  const at::NoGradGuard no_grad;
  for (ShardSlot& slot : slots_) {
    AddTo(slot.accumulated, slot.gradient, reduce_dtype());
    slot.gradient.reset();
  }
}

bool ShardedUnit::has_accumulated() const {
  for (const ShardSlot& slot : slots_) {
    if (slot.accumulated.defined()) {
      return true;
    }
  }
  return false;
}

at::Tensor ShardedUnit::TakeReductionRows() {
  const at::NoGradGuard no_grad;
  int64_t width = 0;
  for (const ShardSlot& slot : slots_) {
    width += slot.trainable ? slot.layout.padded_numel() : 0;
  }
  at::Tensor rows = at::zeros({groups_.shard_size, width},
                              slots_.front().gathered.options().dtype(reduce_dtype()));
  int64_t offset = 0;
  for (ShardSlot& slot : slots_) {
    if (!slot.trainable) {
      continue;
    }
    const int64_t part = slot.layout.padded_numel();
    at::Tensor gradient = std::move(slot.accumulated);
    slot.accumulated.reset();
    AddTo(gradient, slot.gradient, reduce_dtype());
    slot.gradient.reset();
    if (gradient.defined()) {
      CopyByRank(gradient, slot.layout, rows.narrow(1, offset, part));
    }
    offset += part;
  }
  const double divisor = PreDivision(groups_.world_size(), reduce_dtype());
  return divisor == 1.0 ? rows : rows.div_(divisor);
}

void ShardedUnit::StoreReduced(const at::Tensor& sum, const std::vector<bool>& is_used) {
  const at::NoGradGuard no_grad;
  const double divisor =
      static_cast<double>(groups_.world_size()) / PreDivision(groups_.world_size(), reduce_dtype());
  int64_t offset = 0;
  size_t index = 0;
  for (ShardSlot& slot : slots_) {
    if (!slot.trainable) {
      continue;
    }
    if (is_used[index++]) {
      const at::Tensor mean = sum.narrow(0, offset, slot.layout.NumelOf(groups_.shard_rank))
                                  .to(slot.padded.options())
                                  .div(divisor)
                                  .view(slot.shard.sizes());
      at::Tensor& gradient = slot.shard.mutable_grad();
      gradient = gradient.defined() ? gradient.add_(mean) : mean;
    }
    offset += slot.layout.padded_numel();
  }
}

}  // namespace lr::worker
