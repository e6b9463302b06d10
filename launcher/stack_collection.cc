#include "launcher/stack_collection.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "launcher/supervise/process_state.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::seconds kLimit{10};  // the host waits for 20 s

}  // namespace

StackCollection::StackCollection(boost::asio::io_context& loop,
                                 std::vector<Member> members,
                                 std::function<void(std::vector<RankStack>)> done)
    : members_(std::move(members)), done_(std::move(done)), limit_(loop) {
  const bool waits = std::ranges::any_of(members_, &Member::asked);
  limit_.expires_after(waits ? kLimit : std::chrono::seconds(0));
  limit_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      Finish();
    }
  });
}

void StackCollection::Add(int rank, const std::string& text) {
  answers_[rank] = text;
  const bool complete = std::ranges::all_of(members_, [&](const Member& member) {
    return !member.asked || answers_.contains(member.worker.rank);
  });
  if (complete) {
    limit_.expires_after(std::chrono::seconds(0));  // cancels; not from inside this call
    limit_.async_wait([this](const boost::system::error_code& error) {
      if (!error) {
        Finish();
      }
    });
  }
}

std::string StackCollection::TextOf(const Member& member) const {
  const RunningWorker& worker = member.worker;
  std::string text = fmt::format("rank {} (local rank {}, pid {}){}\n",
                                 worker.rank,
                                 worker.local_rank,
                                 worker.pid,
                                 member.place.empty() ? "" : ": " + member.place);
  if (const auto answer = answers_.find(worker.rank); answer != answers_.end()) {
    text += answer->second;
  } else if (member.asked) {
    text +=
        fmt::format("no native stacks: the worker did not answer within {} s\n", kLimit.count());
  } else {
    text += "no native stacks: the worker does not speak with its launcher\n";
  }
  return text + "by the kernel: " + DescribeThreads(worker.pid);
}

void StackCollection::Finish() {
  if (const auto done = std::exchange(done_, nullptr)) {
    std::vector<RankStack> stacks;
    for (const Member& member : members_) {
      stacks.push_back({member.worker.rank, TextOf(member)});
    }
    done(std::move(stacks));  // may destroy this
  }
}

}  // namespace lr::launcher
