// (pure) The learning-rate formulas of LeRobot's schedulers, in double precision. Sources:
// diffusers' optimization.py for `diffuser`, LeRobot's schedulers for the others. Fails only while
// the schedule is made.
#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/text.h"

namespace lr::worker {

namespace {

/// What a schedule is made from; w and T of the formulas.
struct Span {
  int64_t warmup;
  int64_t total;

  double WarmupFactor(int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, warmup));
  }

  /// Share of the time after warm-up that has passed; may exceed 1.
  double Progress(int64_t step) const {
    return static_cast<double>(step - warmup) /
           static_cast<double>(std::max<int64_t>(1, total - warmup));
  }
};

double HalfCosine(double angle) {
  return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * angle)));
}

/// Linear warm-up from 0 to 1, then `after`.
template <typename After>
ScheduleFunction WithWarmup(Span span, After after) {
  return [span, after](int64_t step) {
    return step < span.warmup ? span.WarmupFactor(step) : after(step);
  };
}

ScheduleFunction Cosine(Span span, double num_cycles) {
  return WithWarmup(
      span, [=](int64_t step) { return HalfCosine(num_cycles * 2.0 * span.Progress(step)); });
}

ScheduleFunction CosineWithRestarts(Span span) {
  constexpr double kCycles = 1.0;
  return WithWarmup(span, [=](int64_t step) {
    const double progress = span.Progress(step);
    return progress >= 1.0 ? 0.0 : HalfCosine(std::fmod(kCycles * progress, 1.0));
  });
}

ScheduleFunction Linear(Span span) {
  return WithWarmup(span, [=](int64_t step) {
    return std::max(0.0,
                    static_cast<double>(span.total - step) /
                        static_cast<double>(std::max<int64_t>(1, span.total - span.warmup)));
  });
}

/// From the base rate down to 1e-7, an absolute rate: hence the dependence on the base rate.
Result<ScheduleFunction> Polynomial(Span span, std::optional<double> base_lr) {
  constexpr double kEndLr = 1e-7;
  if (!base_lr) {
    return InvalidArgument(
        "scheduler 'diffuser' with name 'polynomial' needs the optimizer's learning rate");
  }
  if (*base_lr <= kEndLr) {
    return InvalidArgument(
        "scheduler 'diffuser' with name 'polynomial' ends at a learning rate of {}; the "
        "optimizer's must be higher (it is {})",
        kEndLr,
        *base_lr);
  }
  const double start = *base_lr;
  return WithWarmup(span, [=](int64_t step) {
    if (step > span.total) {
      return kEndLr / start;
    }
    const double passed =
        static_cast<double>(step - span.warmup) / static_cast<double>(span.total - span.warmup);
    return ((start - kEndLr) * (1.0 - passed) + kEndLr) / start;
  });
}

Result<ScheduleFunction> Diffuser(const SchedulerConfig& config,
                                  int64_t total_steps,
                                  std::optional<double> base_lr) {
  if (config.name == "constant") {
    return ScheduleFunction([](int64_t) { return 1.0; });
  }
  const std::vector<std::string> names = {
      "constant", "constant_with_warmup", "cosine", "cosine_with_restarts", "linear", "polynomial"};
  if (std::find(names.begin(), names.end(), config.name) == names.end()) {
    return InvalidArgument(
        "scheduler 'diffuser' has no name '{}'; the names are {}", config.name, Join(names, ", "));
  }
  if (!config.num_warmup_steps) {
    return InvalidArgument("scheduler 'diffuser' with name '{}' needs --scheduler.num_warmup_steps",
                           config.name);
  }
  const Span span{*config.num_warmup_steps, total_steps};
  if (config.name == "cosine") {
    return Cosine(span, 0.5);
  }
  if (config.name == "cosine_with_restarts") {
    return CosineWithRestarts(span);
  }
  if (config.name == "linear") {
    return Linear(span);
  }
  if (config.name == "polynomial") {
    return Polynomial(span, base_lr);
  }
  return WithWarmup(span, [](int64_t) { return 1.0; });
}

/// Full rate while the codebook trains, then warm-up and cosine on a clock that starts there; the
/// cosine's length is still counted from the run's start.
ScheduleFunction Vqbet(int64_t codebook_steps, Span span, double num_cycles) {
  return [codebook_steps, cosine = Cosine(span, num_cycles)](int64_t step) {
    return step < codebook_steps ? 1.0 : cosine(step - codebook_steps);
  };
}

struct DecaySpan {
  int64_t warmup;
  int64_t decay;
};

/// Shrinks warm-up and decay together when the run is shorter than the decay.
DecaySpan FitDecay(int64_t warmup, int64_t decay, int64_t total_steps) {
  if (total_steps >= decay) {
    return {warmup, decay};
  }
  const double scale = static_cast<double>(total_steps) / static_cast<double>(decay);
  return {static_cast<int64_t>(static_cast<double>(warmup) * scale), total_steps};
}

/// Warm-up from 1 / (w + 1), then a cosine in the absolute step down to decay_lr / peak_lr.
Result<ScheduleFunction> CosineDecay(const SchedulerConfig& config, int64_t total_steps) {
  if (config.num_decay_steps <= 0) {
    return InvalidArgument("--scheduler.num_decay_steps is {}; it must be positive",
                           config.num_decay_steps);
  }
  if (!(config.peak_lr > 0.0)) {
    return InvalidArgument("--scheduler.peak_lr is {}; it must be positive", config.peak_lr);
  }
  const auto [warmup, decay] =
      FitDecay(*config.num_warmup_steps, config.num_decay_steps, total_steps);
  const double floor = config.decay_lr / config.peak_lr;
  return ScheduleFunction([warmup = warmup, decay = decay, floor](int64_t step) {
    if (step < warmup) {
      const double first = 1.0 / static_cast<double>(warmup + 1);
      const double left = 1.0 - static_cast<double>(step) / static_cast<double>(warmup);
      return step <= 0 ? first : (first - 1.0) * left + 1.0;
    }
    const double passed = static_cast<double>(std::min(step, decay)) / static_cast<double>(decay);
    return (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * passed)) + floor;
  });
}

Status CheckWarmup(const SchedulerConfig& config) {
  if (!config.num_warmup_steps) {
    return InvalidArgument("scheduler '{}' needs --scheduler.num_warmup_steps", config.type);
  }
  if (*config.num_warmup_steps < 0) {
    return InvalidArgument("--scheduler.num_warmup_steps is {}; it must not be negative",
                           *config.num_warmup_steps);
  }
  return {};
}

}  // namespace

Result<ScheduleFunction> MakeSchedule(const SchedulerConfig& config,
                                      int64_t total_steps,
                                      std::optional<double> base_lr) {
  static const std::vector<std::string> types = {"constant_with_warmup",
                                                 "cosine_annealing_with_warmup",
                                                 "cosine_decay_with_warmup",
                                                 "diffuser",
                                                 "vqbet"};
  if (std::find(types.begin(), types.end(), config.type) == types.end()) {
    const std::optional<std::string> nearest = NearestName(config.type, types);
    return InvalidArgument("unknown scheduler type '{}'{}; the types are {}",
                           config.type,
                           nearest ? fmt::format(" (did you mean '{}'?)", *nearest) : "",
                           Join(types, ", "));
  }
  if (config.type == "diffuser") {
    return Diffuser(config, total_steps, base_lr);
  }
  if (config.type == "constant_with_warmup") {
    return WithWarmup({config.num_warmup_steps.value_or(1000), total_steps},
                      [](int64_t) { return 1.0; });
  }
  LR_TRY(CheckWarmup(config));
  const Span span{*config.num_warmup_steps, total_steps};
  if (config.type == "vqbet") {
    return Vqbet(config.num_vqvae_training_steps, span, config.num_cycles);
  }
  if (config.type == "cosine_annealing_with_warmup") {
    return Cosine(span, 0.5);
  }
  return CosineDecay(config, total_steps);
}

std::string DescribeScheduleScaling(const SchedulerConfig& config, int64_t total_steps) {
  if (config.type != "cosine_decay_with_warmup" || total_steps >= config.num_decay_steps ||
      config.num_decay_steps <= 0) {
    return {};
  }
  const int64_t warmup = config.num_warmup_steps.value_or(0);
  const DecaySpan fitted = FitDecay(warmup, config.num_decay_steps, total_steps);
  return fmt::format("schedule fitted to a run of {} steps: warm-up {} -> {}, decay {} -> {}",
                     total_steps,
                     warmup,
                     fitted.warmup,
                     config.num_decay_steps,
                     fitted.decay);
}

}  // namespace lr::worker
