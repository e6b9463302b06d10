#include "common/contract/checkpoint_layout.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace lr {
namespace {

constexpr size_t kMinimumDigits = 6;
constexpr size_t kAlwaysKept = 2;

std::string Mark(std::string_view step_name,
                 std::string_view mark,
                 int64_t pid,
                 std::string_view random) {
  return fmt::format("{}{}{}-{}", step_name, mark, pid, random);
}

/// "<digits><mark>…".
bool HasMark(std::string_view name, std::string_view mark) {
  const size_t at = name.find(mark);
  return at != std::string_view::npos && ParseStepDirectoryName(name.substr(0, at)).has_value();
}

bool HasFile(const CheckpointListing& listing, const std::string& path) {
  const auto it = listing.files.find(path);
  return it != listing.files.end() && it->second > 0;
}

bool Satisfied(const CheckpointListing& listing, const FileAlternatives& alternatives) {
  return std::any_of(
      alternatives.begin(), alternatives.end(), [&](const std::vector<std::string>& paths) {
        return std::all_of(paths.begin(), paths.end(), [&](const std::string& path) {
          return HasFile(listing, path);
        });
      });
}

CheckpointVerdict JudgeByManifest(const CheckpointListing& listing) {
  for (const CheckpointFile& file : listing.manifest->files) {
    const auto it = listing.files.find(file.path);
    if (it == listing.files.end()) {
      return {false, fmt::format("{} is missing ({} bytes in the manifest)", file.path, file.size)};
    }
    if (it->second != file.size) {
      return {
          false,
          fmt::format("{} has {} bytes, the manifest says {}", file.path, it->second, file.size)};
    }
  }
  return {true,
          fmt::format("all {} files of the manifest are there", listing.manifest->files.size())};
}

/// One optimizer per subfolder of training_state/ (several optimizers) also counts.
bool HasNamedOptimizer(const CheckpointListing& listing) {
  constexpr std::string_view kStateName = "/optimizer_state.safetensors";
  const std::string prefix = std::string(kTrainingStateFolder) + "/";
  return std::any_of(listing.files.begin(), listing.files.end(), [&](const auto& file) {
    const std::string& path = file.first;
    if (!path.starts_with(prefix) || !path.ends_with(kStateName) || path == kOptimizerStatePath) {
      return false;
    }
    const std::string folder = path.substr(0, path.size() - kStateName.size());
    return HasFile(listing, path) && HasFile(listing, folder + "/optimizer_param_groups.json");
  });
}

CheckpointVerdict JudgeByRequiredFiles(const CheckpointListing& listing) {
  for (const FileAlternatives& alternatives : RequiredCheckpointFiles()) {
    const bool is_optimizer = alternatives.front().front() == kOptimizerStatePath;
    if (!Satisfied(listing, alternatives) && !(is_optimizer && HasNamedOptimizer(listing))) {
      return {false,
              fmt::format("no manifest, and {} is missing or empty", alternatives.front().front())};
    }
  }
  return {true, "no manifest, but all required files are there"};
}

}  // namespace

std::string StepDirectoryName(int64_t step, int64_t total_steps) {
  const size_t width =
      std::max(kMinimumDigits, fmt::format("{}", std::max<int64_t>(total_steps, 0)).size());
  return fmt::format("{:0{}}", step, width);
}

std::optional<int64_t> ParseStepDirectoryName(std::string_view name) {
  if (name.empty() || name.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? std::optional<int64_t>(step)
                                                                  : std::nullopt;
}

std::string TemporaryName(std::string_view step_name, int64_t pid, std::string_view random) {
  return Mark(step_name, ".tmp-", pid, random);
}

std::string AsideName(std::string_view step_name, int64_t pid, std::string_view random) {
  return Mark(step_name, ".old-", pid, random);
}

std::string DoomedName(std::string_view step_name, int64_t pid, std::string_view random) {
  return Mark(step_name, ".del-", pid, random);
}

bool IsTemporaryName(std::string_view name) {
  return HasMark(name, ".tmp-");
}

bool IsAsideName(std::string_view name) {
  return HasMark(name, ".old-");
}

bool IsDoomedName(std::string_view name) {
  return HasMark(name, ".del-");
}

const std::vector<FileAlternatives>& RequiredCheckpointFiles() {
  static const std::vector<FileAlternatives> required = {
      {{kPolicyConfigPath}},
      {{kTrainConfigPath}},
      {{kModelPath},
       {kAdapterModelPath, kAdapterConfigPath},
       {std::string(kModelShardsFolder) + "/.metadata"}},
      {{kTrainingStepPath}},
      {{kRngStatePath}},
      {{kOptimizerStatePath, kOptimizerGroupsPath},
       {std::string(kOptimizerShardsFolder) + "/.metadata"}},
  };
  return required;
}

CheckpointVerdict JudgeCheckpoint(const CheckpointListing& listing) {
  if (!listing.manifest_error.empty()) {
    return {false, listing.manifest_error};
  }
  return listing.manifest ? JudgeByManifest(listing) : JudgeByRequiredFiles(listing);
}

CheckpointChoice ChooseCheckpoint(const std::vector<CheckpointCandidate>& candidates) {
  std::optional<size_t> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const CheckpointCandidate& candidate = candidates[i];
    if (!candidate.verdict.complete) {
      continue;
    }
    if (candidate.is_last) {
      return {i,
              fmt::format(
                  "step {}: the target of 'last', {}", candidate.step, candidate.verdict.reason)};
    }
    if (!best || candidate.step > candidates[*best].step) {
      best = i;
    }
  }
  if (best) {
    const CheckpointCandidate& candidate = candidates[*best];
    return {best,
            fmt::format(
                "step {}: the newest complete one, {}", candidate.step, candidate.verdict.reason)};
  }
  if (candidates.empty()) {
    return {std::nullopt, "there is no checkpoint"};
  }
  std::string reasons;
  for (const CheckpointCandidate& candidate : candidates) {
    reasons += fmt::format(
        "{}{}: {}", reasons.empty() ? "" : "; ", candidate.name, candidate.verdict.reason);
  }
  return {std::nullopt, "no checkpoint is complete (" + reasons + ")"};
}

std::vector<std::string> CheckpointsToRemove(const std::vector<CheckpointCandidate>& candidates,
                                             int64_t keep) {
  if (keep <= 0) {
    return {};
  }
  std::vector<const CheckpointCandidate*> complete;
  for (const CheckpointCandidate& candidate : candidates) {
    if (candidate.verdict.complete) {
      complete.push_back(&candidate);
    }
  }
  std::stable_sort(complete.begin(), complete.end(), [](const auto* a, const auto* b) {
    return a->step > b->step;
  });
  const size_t kept = std::max(kAlwaysKept, static_cast<size_t>(keep));
  std::vector<std::string> doomed;
  for (size_t i = kept; i < complete.size(); ++i) {
    if (!complete[i]->is_last && !complete[i]->pinned) {
      doomed.push_back(complete[i]->name);
    }
  }
  return doomed;
}

}  // namespace lr
