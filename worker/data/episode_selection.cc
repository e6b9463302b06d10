/// Episode lists and the held-out split. Pure.
#include "worker/data/episode_selection.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/text.h"

namespace lr::worker {

namespace {

std::string Numbers(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string ValidRange(int64_t total) {
  return total == 0 ? "the dataset has no episodes"
                    : fmt::format("valid episodes are 0 to {}", total - 1);
}

Status CheckRequested(int64_t total, const std::vector<int64_t>& episodes) {
  std::set<int64_t> seen;
  for (const int64_t episode : episodes) {
    if (episode < 0) {
      return InvalidArgument(
          "--dataset.episodes holds the negative number {}; {}", episode, ValidRange(total));
    }
    if (!seen.insert(episode).second) {
      return InvalidArgument("--dataset.episodes holds {} more than once", episode);
    }
  }
  return {};
}

/// Splits into numbers that exist and numbers that do not.
void Partition(int64_t total,
               const std::vector<int64_t>& from,
               std::vector<int64_t>& valid,
               std::vector<int64_t>& other) {
  for (const int64_t episode : from) {
    (episode >= 0 && episode < total ? valid : other).push_back(episode);
  }
}

}  // namespace

Result<EpisodeSelection> SelectEpisodes(
    int64_t total,
    const std::optional<std::vector<int64_t>>& episodes,
    const std::optional<std::vector<int64_t>>& exclude_episodes) {
  EpisodeSelection selection;
  std::vector<int64_t> unknown;
  if (episodes) {
    LR_TRY(CheckRequested(total, *episodes));
    Partition(total, *episodes, selection.episodes, unknown);
    if (!unknown.empty()) {
      selection.warnings.push_back(
          fmt::format("--dataset.episodes: {} not in the dataset and dropped ({})",
                      Numbers(unknown),
                      ValidRange(total)));
    }
  } else {
    for (int64_t episode = 0; episode < total; ++episode) {
      selection.episodes.push_back(episode);
    }
  }
  if (exclude_episodes) {
    std::vector<int64_t> excluded;
    unknown.clear();
    Partition(total, *exclude_episodes, excluded, unknown);
    if (!unknown.empty()) {
      selection.warnings.push_back(
          fmt::format("--dataset.exclude_episodes: {} not in the dataset and ignored ({})",
                      Numbers(unknown),
                      ValidRange(total)));
    }
    const std::set<int64_t> drop(excluded.begin(), excluded.end());
    std::erase_if(selection.episodes, [&](int64_t episode) { return drop.count(episode) > 0; });
  }
  if (selection.episodes.empty()) {
    return InvalidArgument(
        "no episode is left after --dataset.episodes={} and --dataset.exclude_episodes={}; {}",
        episodes ? Numbers(*episodes) : "null",
        exclude_episodes ? Numbers(*exclude_episodes) : "null",
        ValidRange(total));
  }
  selection.is_everything = static_cast<int64_t>(selection.episodes.size()) == total;
  return selection;
}

Result<HeldOutSplit> SplitHeldOut(const std::vector<int64_t>& episodes,
                                  const std::vector<std::string>& first_task,
                                  double eval_split) {
  LR_CHECK(episodes.size() == first_task.size(),
           "{} episodes, {} tasks",
           episodes.size(),
           first_task.size());
  if (!(eval_split >= 0.0 && eval_split < 1.0)) {
    return InvalidArgument("--dataset.eval_split is {} and must be in [0, 1)", eval_split);
  }
  HeldOutSplit split;
  if (eval_split == 0.0) {
    split.train = episodes;
    return split;
  }
  std::vector<std::string> order;
  std::map<std::string, std::vector<int64_t>> groups;
  for (size_t i = 0; i < episodes.size(); ++i) {
    std::vector<int64_t>& group = groups[first_task[i]];
    if (group.empty()) {
      order.push_back(first_task[i]);
    }
    group.push_back(episodes[i]);
  }
  for (const std::string& task : order) {
    const std::vector<int64_t>& group = groups[task];
    const auto size = static_cast<int64_t>(group.size());
    const auto held_out = static_cast<int64_t>(std::ceil(static_cast<double>(size) * eval_split));
    split.train.insert(split.train.end(), group.begin(), group.end() - held_out);
    split.held_out.insert(split.held_out.end(), group.end() - held_out, group.end());
  }
  if (split.train.empty()) {
    return InvalidArgument(
        "eval_split={} leaves 0 training episodes from {} total.", eval_split, episodes.size());
  }
  split.log_line = fmt::format("Train/eval split: {} train, {} eval (eval_split={}, {} tasks)",
                               split.train.size(),
                               split.held_out.size(),
                               eval_split,
                               order.size());
  return split;
}

}  // namespace lr::worker
