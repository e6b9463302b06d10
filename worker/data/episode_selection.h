#pragma once
/// (pure) Which episodes a run uses: `--dataset.episodes`, `--dataset.exclude_episodes`, and the
/// held-out split (dataset_and_training_loop.md E.10, E.11).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

struct EpisodeSelection {
  std::vector<int64_t>
      episodes;  ///< in the order of the request; ascending when everything is used
  bool is_everything = true;
  std::vector<std::string> warnings;
};

/// Applies the two lists to a dataset of `total` episodes. Negative or repeated numbers in
/// `episodes` are refused; numbers beyond the end are dropped with a warning; nothing left is an
/// error that states the valid range.
Result<EpisodeSelection> SelectEpisodes(
    int64_t total,
    const std::optional<std::vector<int64_t>>& episodes,
    const std::optional<std::vector<int64_t>>& exclude_episodes);

struct HeldOutSplit {
  std::vector<int64_t> train;
  std::vector<int64_t> held_out;  ///< empty when eval_split is 0
  std::string log_line;           ///< "Train/eval split: …"; empty when eval_split is 0
};

/// Groups the selected episodes by their first task (order of appearance) and holds out the last
/// ceil(n * eval_split) of each group. `first_task[i]` belongs to `episodes[i]`.
Result<HeldOutSplit> SplitHeldOut(const std::vector<int64_t>& episodes,
                                  const std::vector<std::string>& first_task,
                                  double eval_split);

}  // namespace lr::worker
