#include "worker/comm/communicator.h"

#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "worker/comm/exception_text.h"

namespace lr::worker {

namespace {

at::Tensor ToBytes(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string FromBytes(const at::Tensor& bytes, int64_t size) {
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(size)};
}

}  // namespace

Communicator::Communicator(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size)
    : backend_(std::move(backend)), rank_(rank), size_(size) {
  LR_CHECK(size_ == 1 || backend_, "{} processes need a backend", size_);
}

Communicator::~Communicator() = default;

int64_t Communicator::entered() const {
  return backend_ ? static_cast<int64_t>(backend_->getSequenceNumberForGroup()) : 0;
}

Status Communicator::Run(const char* what, const std::function<void()>& collective) {
  if (size_ == 1) {
    return {};
  }
  LR_TRY(dead_);
  try {
    collective();
    return {};
  } catch (const std::exception& error) {
    dead_ = Unavailable("rank {} of {}: {} failed, a peer is lost or silent ({})",
                        rank_,
                        size_,
                        what,
                        FirstLine(error));
    return dead_;
  }
}

Status Communicator::Barrier() {
  return Run("barrier", [&] { backend_->barrier()->wait(); });
}

Status Communicator::AllReduce(at::Tensor& values, ReduceKind kind) {
  LR_TRY(Run("metric reduction", [&] {
    std::vector<at::Tensor> tensors = {values};
    c10d::AllreduceOptions options;
    options.reduceOp = kind == ReduceKind::kMax ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    backend_->allreduce(tensors, options)->wait();
  }));
  if (kind == ReduceKind::kMean && size_ > 1) {
    values.div_(size_);
  }
  return {};
}

Result<std::string> Communicator::BroadcastFromMain(std::string text) {
  LR_TRY(Run("broadcast", [&] {
    c10d::BroadcastOptions options;
    options.rootRank = 0;
    std::vector<at::Tensor> size = {at::tensor({static_cast<int64_t>(text.size())}, at::kLong)};
    backend_->broadcast(size, options)->wait();
    const auto bytes = size[0].item<int64_t>();
    if (bytes == 0) {
      text.clear();
      return;
    }
    std::vector<at::Tensor> payload = {rank_ == 0 ? ToBytes(text) : at::empty({bytes}, at::kByte)};
    backend_->broadcast(payload, options)->wait();
    text = FromBytes(payload[0], bytes);
  }));
  return text;
}

Result<std::vector<std::string>> Communicator::AllGather(const std::string& text) {
  std::vector<std::string> all = {text};
  LR_TRY(Run("gather", [&] {
    std::vector<at::Tensor> longest = {at::tensor({static_cast<int64_t>(text.size())}, at::kLong)};
    c10d::AllreduceOptions max;
    max.reduceOp = c10d::ReduceOp::MAX;
    backend_->allreduce(longest, max)->wait();
    // One fixed-size record per rank: 8 bytes of length, then the text, padded to the longest.
    const int64_t record = 8 + longest[0].item<int64_t>();
    std::vector<at::Tensor> mine = {at::zeros({record}, at::kByte)};
    const auto length = static_cast<int64_t>(text.size());
    std::memcpy(mine[0].data_ptr(), &length, sizeof(length));
    std::memcpy(static_cast<char*>(mine[0].data_ptr()) + sizeof(length), text.data(), text.size());
    std::vector<std::vector<at::Tensor>> gathered(1);
    for (int i = 0; i < size_; ++i) {
      gathered[0].push_back(at::empty({record}, at::kByte));
    }
    backend_->allgather(gathered, mine)->wait();
    all.clear();
    for (const at::Tensor& one : gathered[0]) {
      int64_t size = 0;
      std::memcpy(&size, one.data_ptr(), sizeof(size));
      LR_CHECK(
          size >= 0 && size <= record - 8, "gathered record of {} bytes claims {}", record, size);
      all.push_back(FromBytes(one.slice(0, 8), size));
    }
  }));
  return all;
}

Status Communicator::AgreeAll(const Status& mine) {
  // "<code> <message>"; empty when fine, so that the usual case moves a few bytes.
  const std::string word =
      mine.ok() ? "" : fmt::format("{} {}", static_cast<int>(mine.code()), mine.message());
  LR_ASSIGN(const std::vector<std::string> words, AllGather(word));
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].empty()) {
      continue;
    }
    const size_t space = words[rank].find(' ');
    const auto code = static_cast<StatusCode>(std::atoi(words[rank].c_str()));
    const std::string message = words[rank].substr(space + 1);
    return {code, size_ == 1 ? message : fmt::format("rank {} of {}: {}", rank, size_, message)};
  }
  return {};
}

PendingMax Communicator::StartMax(int64_t value) {
  PendingMax pending;
  pending.value_ = at::tensor({value}, at::kLong);
  pending.failed_ = Run("step agreement", [&] {
    std::vector<at::Tensor> tensors = {pending.value_};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    pending.work_ = backend_->allreduce(tensors, options);
  });
  return pending;
}

Result<int64_t> PendingMax::Wait() {
  LR_TRY(failed_);
  if (work_) {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      return Unavailable("step agreement failed, a peer is lost or silent ({})", FirstLine(error));
    }
  }
  return value_.item<int64_t>();
}

}  // namespace lr::worker
