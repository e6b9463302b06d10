// Stands for lr-train in tests of the launcher: runs steps that only take time, speaks worker.proto
// with the worker's own library, and goes wrong where it is told. Needs no LibTorch.
//
//   lr-train [--steps=N] [--step-ms=N] [--slow=RANK:PHASE:MS] [--stop=RANK:STEP:PHASE]
//            [--first-ms=N] [--save=STEP:MS] [--collective-lag=RANK:STEP] [--stop-once] [--measure]
//
// PHASE: data, forward, backward. --stop: the rank stands still for ever in that phase of that
// step; the others wait for it in the backward of the same step, as a collective would make them.
// --stop-once: in the first attempt only. --collective-lag: all stand still in the backward of the
// step, one of them without having entered the collective. --measure: says at its end what a step
// took, on the clock and on processors, in microseconds. Exits 0 after its steps, or by a request
// at a step's end.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/contract/worker_environment.h"
#include "worker/control/control.h"

namespace lr::worker {

std::atomic<bool> never{false};

// Exported, so that the loader knows the names (tests look for them in stacks).
__attribute__((noinline)) void StandStillForEver() {
  while (!never.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

__attribute__((noinline)) void WaitForTheOthers() {
  while (!never.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

namespace {

using std::chrono::milliseconds;

/// "--name=a:b:c" -> {a, b, c}
std::vector<std::string> Parts(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--" + name + "=") || argument == "--" + name) {
      std::istringstream text(argument.substr(std::min(argument.size(), name.size() + 3)));
      std::vector<std::string> parts{};
      for (std::string part; std::getline(text, part, ':');) {
        parts.push_back(part);
      }
      parts.resize(std::max<size_t>(parts.size(), 1));
      return parts;
    }
  }
  return {};
}

int Number(const std::vector<std::string>& parts, size_t index, int otherwise) {
  return index < parts.size() ? std::atoi(parts[index].c_str())
                              : otherwise;  // NOLINT(cert-err34-c)
}

/// What steps take, from Start() on.
class Meter {
 public:
  void Print(int64_t steps) {
    const auto [clock_us, processor_us] = Now();
    std::printf("step %.2f us, processor %.2f us\n",
                (clock_us - clock_us_) / static_cast<double>(steps),
                (processor_us - processor_us_) / static_cast<double>(steps));
  }

  void Start() { std::tie(clock_us_, processor_us_) = Now(); }

 private:
  static std::pair<double, double> Now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    const std::chrono::duration<double, std::micro> clock =
        std::chrono::steady_clock::now().time_since_epoch();
    return {clock.count(), us(usage.ru_utime) + us(usage.ru_stime)};
  }

  double clock_us_ = 0;
  double processor_us_ = 0;
};

class Training {
 public:
  Training(int argc, char** argv, WorkerEnvironment environment)
      : environment_(std::move(environment)),
        steps_(Number(Parts(argc, argv, "steps"), 0, 1'000'000)),
        step_time_(Number(Parts(argc, argv, "step-ms"), 0, 30)),
        first_time_(Number(Parts(argc, argv, "first-ms"), 0, 0)),
        slow_(Parts(argc, argv, "slow")),
        stop_(Parts(argc, argv, "stop")),
        lag_(Parts(argc, argv, "collective-lag")),
        save_(Parts(argc, argv, "save")),
        measure_(!Parts(argc, argv, "measure").empty()) {
    if (!Parts(argc, argv, "stop-once").empty() && environment_.restart_count > 0) {
      stop_.clear();
    }
    InstallSignalHandlers(inbox_);
    link_ = ControlLink::Start(environment_.control_socket, environment_.rank, "", inbox_);
    link_->ObserveCollectives([this] {
      return std::vector<CollectivePosition>{
          {.group = "data", .entered = entered_.load(), .operation = "all-reduce", .bytes = 4096}};
    });
  }

  int Run() {
    for (step_ = 0; step_ < steps_ && inbox_.pending() < ControlWord::kCheckpointAndStop;) {
      OneStep();
      if (step_ == kWarmUp) {
        meter_.Start();
      }
    }
    if (measure_ && step_ > kWarmUp) {
      meter_.Print(step_ - kWarmUp);
    }
    const bool stopped = step_ < steps_;
    link_->Goodbye(stopped ? "stopped" : "done");
    return stopped && inbox_.stop_signal() != 0 ? 128 + inbox_.stop_signal() : 0;
  }

 private:
  void OneStep() {
    std::this_thread::sleep_for(step_ == 0 ? first_time_ : milliseconds(0));
    Pass(Phase::kData, "data");
    Pass(Phase::kForward, "forward");
    if (Number(lag_, 0, environment_.rank) != environment_.rank || !IsStep(lag_, 1)) {
      ++entered_;
    }
    Pass(Phase::kBackward, "backward");
    ++step_;
    link_->ReportStep({.step = step_, .total_steps = steps_, .loss = 0.5, .samples_per_s = 10});
    if (IsStep(save_, 0)) {
      link_->SetPhase(Phase::kCheckpoint);
      std::this_thread::sleep_for(milliseconds(Number(save_, 1, 0)));
    }
  }

  bool IsStep(const std::vector<std::string>& parts, size_t index) const {
    return Number(parts, index, -1) == step_;
  }

  bool IsMe(const std::vector<std::string>& parts) const {
    return Number(parts, 0, -1) == environment_.rank;
  }

  void Pass(Phase phase, const std::string& name) {
    link_->SetPhase(phase);
    if (IsMe(slow_) && slow_.at(1) == name) {
      std::this_thread::sleep_for(milliseconds(Number(slow_, 2, 0)));
    }
    if (IsStep(stop_, 1) && IsMe(stop_) && stop_.at(2) == name) {
      StandStillForEver();
    }
    const bool others_wait = (IsStep(stop_, 1) && !IsMe(stop_)) || IsStep(lag_, 1);
    if (others_wait && phase == Phase::kBackward) {
      WaitForTheOthers();
    }
    std::this_thread::sleep_for(step_time_ / 3);
  }

  static constexpr int64_t kWarmUp = 20;

  const WorkerEnvironment environment_;
  const int64_t steps_;
  const milliseconds step_time_;
  const milliseconds first_time_;
  std::vector<std::string> slow_;
  std::vector<std::string> stop_;
  std::vector<std::string> lag_;
  std::vector<std::string> save_;
  const bool measure_;
  Meter meter_;
  ControlInbox inbox_;
  std::atomic<int64_t> entered_{0};
  int64_t step_ = 0;
  std::unique_ptr<ControlLink> link_;
};

int Main(int argc, char** argv) {
  const auto environment = ReadWorkerEnvironment(ProcessEnvironment());
  return environment.ok() ? Training(argc, argv, *environment).Run() : 2;
}

}  // namespace
}  // namespace lr::worker

int main(int argc, char** argv) {
  return lr::worker::Main(argc, argv);
}
