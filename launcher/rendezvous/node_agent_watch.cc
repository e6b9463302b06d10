/// NodeAgent: what this node's workers do, on its way to the host (S-20). With the beats: what
/// changed, and a sign of life of what did not. A run of one node has no beats; there it costs
/// nothing to pass everything on at once.

#include <algorithm>
#include <utility>

#include "launcher/rendezvous/node_agent.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

constexpr std::chrono::seconds kSignOfLife{10};

}  // namespace

void NodeAgent::ReportBoard(int64_t epoch, const WorkerBoard& board) {
  if (epoch != assignment_.epoch || (phase_ != Phase::kRunning && phase_ != Phase::kStopping)) {
    return;
  }
  ToldBoard& told = boards_[board.rank];
  told.now = board;
  told.heard = true;
  if (one_node() && link_ != nullptr) {
    link_->Send(Boards{epoch, {board}});
  }
}

void NodeAgent::TellBoards() {
  if (phase_ != Phase::kRunning) {
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  Boards message{.epoch = assignment_.epoch, .boards = {}};
  for (auto& [rank, told] : boards_) {
    const bool changed = told.now.ticks != told.told_ticks || told.now.left;
    if (!std::exchange(told.heard, false) || (!changed && now - told.told_at < kSignOfLife)) {
      continue;
    }
    told.told_ticks = told.now.ticks;
    told.told_at = now;
    message.boards.push_back(told.now);
    if (message.boards.size() == kMostBoards) {
      link_->Send(std::exchange(message, {.epoch = assignment_.epoch, .boards = {}}));
    }
  }
  if (!message.boards.empty()) {
    link_->Send(std::move(message));
  }
}

void NodeAgent::ReportStacks(int64_t epoch,
                             const std::string& id,
                             std::vector<RankStack> stacks,
                             bool last) {
  if (link_ != nullptr && phase_ == Phase::kRunning && epoch == assignment_.epoch) {
    link_->Send(Stacks{epoch, id, std::move(stacks), last});
  }
}

}  // namespace lr::launcher
