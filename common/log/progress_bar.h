#pragma once
/// A progress bar in tqdm's shape, on a terminal only: of the trainer's main process and of tools
/// that read much. One thread.

#include <chrono>
#include <cstdint>
#include <string>

namespace lr {

/// What is counted.
struct ProgressWords {
  std::string title = "Training";
  std::string unit = "step";
};

/// (pure) "Training:  45%|████▌     | 9/20 [00:12<00:15,  1.40s/step]" fitted to `columns`.
std::string ProgressText(int64_t done,
                         int64_t total,
                         std::chrono::duration<double> elapsed,
                         int columns,
                         const ProgressWords& words = {});

class ProgressBar {
 public:
  /// `enabled` false: draws nothing. Redraws at most ten times a second.
  ProgressBar(int64_t total, bool enabled, ProgressWords words = {});
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Advance(int64_t by = 1);

  /// Removes the bar from the line so that a log line can be printed; the next Advance() draws it
  /// again.
  void Hide();

 private:
  void Draw();

  int64_t total_;
  int64_t done_ = 0;
  bool enabled_;
  ProgressWords words_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_draw_;
};

/// True when stderr is a terminal and no batch scheduler collects it (SLURM_JOB_ID unset).
bool ProgressBarWanted();

}  // namespace lr
