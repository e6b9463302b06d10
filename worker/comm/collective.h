#pragma once
/// One tensor collective: it says what it was for when it fails, and under
/// TORCH_DISTRIBUTED_DEBUG=DETAIL it is compared between the members before it starts, because
/// members that start different ones hang, or, where the sizes match, corrupt each other's tensors
/// (sharded_training.md 2.10). Step thread, and the autograd engine's on CUDA. Throws, as tensor
/// code does.

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace lr::worker {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// A peer or the network failed, in words: "gather of unit 'encoder.0' (collective 7 of
/// shard/0/gather, member 1 of 4): Connection closed by peer".
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The members are not in the same collective: a mistake of the program, not of a peer.
class CollectiveMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What compared collectives of one rank share: each group's start in the order in which they were
/// asked for. Members may come to collectives of different groups in different order, so none may
/// keep its rank from the next: comparison and start are a thread's, which waits for the one before
/// it in its group.
struct ComparedStarts {
  std::map<const c10d::ProcessGroup*, std::shared_future<WorkPtr>> newest;
};

using ComparedStartsPtr = std::shared_ptr<ComparedStarts>;

class Collective {
 public:
  using Start = std::function<WorkPtr(c10d::Backend&)>;

  Collective() = default;  ///< nothing to wait for

  /// Hands `values` to the group's backend by `start`, which owns what it moves. `doing`: operation
  /// and subject, alike on all members. `compared`: first exchanges what every member is about to
  /// do; null: not. Nothing for a null group.
  Collective(const GroupPtr& group,
             const ComparedStartsPtr& compared,
             std::string doing,
             const at::Tensor& values,
             Start start);

  bool in_flight() const { return work_ != nullptr || started_.valid(); }

  void Wait();

 private:
  void StartCompared(ComparedStarts& compared, const at::Tensor& values, Start start);
  [[noreturn]] void Fail(const std::exception& error) const;

  GroupPtr group_;
  std::string doing_;
  uint64_t number_ = 0;  ///< of the group's collectives; 0: not known
  WorkPtr work_;
  std::shared_future<WorkPtr> started_;  ///< instead of work_ when compared
};

}  // namespace lr::worker
