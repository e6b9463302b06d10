#pragma once
/// Small collectives on host memory for everything that is not a gradient: agreement, metrics,
/// barriers, file names.
///
/// Called by the step thread only, by all ranks in the same order. After a failure (a peer died or
/// stayed silent) the communicator is dead: every later call fails at once, recovery is a new epoch
/// decided by the launcher. With one process every call is a local no-op. This is the border where
/// c10d's exceptions become Status.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "common/base/status.h"

namespace lr::worker {

enum class ReduceKind { kMean, kMax };

/// A maximum that is being agreed on while the step runs.
class PendingMax {
 public:
  /// Blocks until all ranks contributed; the maximum over the ranks.
  Result<int64_t> Wait();

 private:
  friend class Communicator;
  at::Tensor value_;
  c10::intrusive_ptr<c10d::Work> work_;
  Status failed_;
};

class Communicator {
 public:
  /// `backend` null: one process.
  Communicator(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }

  int size() const { return size_; }

  /// Collectives entered so far; any thread. 0 with one process.
  int64_t entered() const;

  Status Barrier();

  /// In place; `values` is a contiguous float32 host tensor of the same length on all ranks.
  Status AllReduce(at::Tensor& values, ReduceKind kind);

  /// Rank 0's text on every rank.
  Result<std::string> BroadcastFromMain(std::string text);

  /// Every rank's text, by rank.
  Result<std::vector<std::string>> AllGather(const std::string& text);

  /// Ok when every rank is; else the first failed rank's status with its rank named, the same on
  /// all ranks.
  Status AgreeAll(const Status& mine);

  /// Starts an 8-byte max-reduction that runs beside the step (design decision 4).
  PendingMax StartMax(int64_t value);

 private:
  Status Run(const char* what, const std::function<void()>& collective);

  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_;
  int size_;
  Status dead_;
};

}  // namespace lr::worker
