/// Rows of batches: taking, joining, cutting.
#include "worker/accelerator/data_loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include "worker/accelerator/status_error.h"

namespace lr::worker {

namespace {

bool HasRows(const at::Tensor& tensor) {
  return tensor.dim() > 0;
}

/// `count` rows of tensor number `index` of the first batches.
at::Tensor PickRows(const std::vector<BatchTensors>& first,
                    size_t index,
                    int64_t begin,
                    int64_t count) {
  std::vector<at::Tensor> parts;
  for (const BatchTensors& batch : first) {
    TORCH_CHECK(index < batch.size(), "batches of one loader hold different numbers of tensors");
    parts.push_back(*batch[index]);
  }
  const at::Tensor all = at::cat(parts);
  TORCH_CHECK(all.size(0) > 0, "an empty batch cannot complete another");
  const at::Tensor rows =
      at::arange(begin, begin + count, at::TensorOptions(at::kLong).device(all.device()))
          .remainder(all.size(0));
  return all.index_select(0, rows);
}

}  // namespace

LoaderScope::LoaderScope(std::vector<const LoaderProgress*>& open)
    : open_(&open), progress_(std::make_unique<LoaderProgress>()) {
  open_->push_back(progress_.get());
}

LoaderScope::~LoaderScope() {
  if (progress_) {
    std::erase(*open_, progress_.get());
  }
}

int64_t RowsOf(const BatchTensors& batch) {
  const auto with_rows =
      std::ranges::find_if(batch, [](const at::Tensor* tensor) { return HasRows(*tensor); });
  return with_rows == batch.end() ? 0 : (*with_rows)->size(0);
}

void TakeRows(const BatchTensors& batch,
              const std::vector<BatchTensors>& first,
              int64_t begin,
              int64_t count) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (HasRows(*batch[i])) {
      *batch[i] = PickRows(first, i, begin, count);
    }
  }
}

void AppendRows(const BatchTensors& batch,
                const std::vector<BatchTensors>& first,
                int64_t begin,
                int64_t count) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (HasRows(*batch[i])) {
      *batch[i] = at::cat({*batch[i], PickRows(first, i, begin, count)});
    }
  }
}

void KeepPart(const BatchTensors& batch, const DealRule& rule) {
  const int64_t rows = RowsOf(batch);
  if (rows % rule.size != 0) {
    ThrowUnlessOk(InvalidArgument(
        "split_batches: a batch of {} rows cannot be cut over {} processes; choose a batch size "
        "that divides by their number, or leave split_batches off",
        rows,
        rule.size));
  }
  const int64_t part = rows / rule.size;
  for (at::Tensor* tensor : batch) {
    if (HasRows(*tensor)) {
      *tensor = tensor->narrow(0, rule.rank * part, part);
    }
  }
}

void MoveTo(const BatchTensors& batch, c10::Device device) {
  for (at::Tensor* tensor : batch) {
    *tensor = tensor->to(device);
  }
}

}  // namespace lr::worker
