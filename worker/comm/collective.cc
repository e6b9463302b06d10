/// Start, comparison and failure of one tensor collective.
#include "worker/comm/collective.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "worker/comm/exception_text.h"

namespace lr::worker {

namespace {

constexpr int64_t kFingerprintBytes = 256;

/// What this member is about to do: "gather of unit 'encoder.0', 4096 x Byte".
std::string Describe(const std::string& doing, const at::Tensor& values) {
  return fmt::format("{}, {} x {}", doing, values.numel(), c10::toString(values.scalar_type()))
      .substr(0, kFingerprintBytes - 1);
}

/// All members' descriptions through the same group, as equal messages: they meet whatever follows.
void Compare(c10d::ProcessGroup& group, const std::string& mine) {
  at::Tensor rows = at::zeros({group.getSize(), kFingerprintBytes}, at::kByte);
  at::Tensor own = at::zeros({1, kFingerprintBytes}, at::kByte);
  std::memcpy(own.data_ptr<uint8_t>(), mine.data(), mine.size());
  group.getBackend(c10::DeviceType::CPU)->all_gather_single(rows, own, {})->wait();
  for (int member = 0; member < group.getSize(); ++member) {
    const auto* text = reinterpret_cast<const char*>(rows[member].const_data_ptr<uint8_t>());
    const std::string theirs(text, strnlen(text, kFingerprintBytes));
    if (theirs != mine) {
      throw CollectiveMismatch(
          fmt::format("the ranks are not in the same collective of {}: member {} starts {}, member "
                      "{} starts {}",
                      group.getGroupName(),
                      group.getRank(),
                      mine,
                      member,
                      theirs));
    }
  }
}

}  // namespace

Collective::Collective(const GroupPtr& group,
                       const ComparedStartsPtr& compared,
                       std::string doing,
                       const at::Tensor& values,
                       Start start)
    : group_(group), doing_(std::move(doing)) {
  if (!group_) {
    return;
  }
  if (compared) {
    StartCompared(*compared, values, std::move(start));
    return;
  }
  try {
    // The backend itself: it moves bytes, whatever they mean.
    work_ = start(*group_->getBackend(values.device().type()));
    number_ = group_->getSequenceNumberForGroup();
  } catch (const std::exception& error) {
    Fail(error);
  }
}

void Collective::StartCompared(ComparedStarts& compared, const at::Tensor& values, Start start) {
  std::shared_future<WorkPtr>& newest = compared.newest[group_.get()];
  // On a device the order of work is that of the stream in force here.
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(values.device().type()).getStream(values.device());
  started_ = std::async(std::launch::async,
                        [group = group_,
                         before = newest,
                         mine = Describe(doing_, values),
                         device = values.device().type(),
                         stream,
                         start = std::move(start)] {
                          if (before.valid()) {
                            before.wait();
                          }
                          Compare(*group, mine);
                          const c10::StreamGuard in_order(stream);
                          return start(*group->getBackend(device));
                        })
                 .share();
  newest = started_;
}

void Collective::Wait() {
  if (!in_flight()) {
    return;
  }
  try {
    const WorkPtr work =
        started_.valid() ? std::exchange(started_, {}).get() : std::exchange(work_, WorkPtr());
    work->wait();
  } catch (const CollectiveMismatch&) {
    throw;
  } catch (const std::exception& error) {
    Fail(error);
  }
}

void Collective::Fail(const std::exception& error) const {
  throw CollectiveError(fmt::format("{} ({}{}, member {} of {}): {}",
                                    doing_,
                                    number_ > 0 ? fmt::format("collective {} of ", number_) : "",
                                    group_->getGroupName(),
                                    group_->getRank(),
                                    group_->getSize(),
                                    FirstLine(error)));
}

}  // namespace lr::worker
