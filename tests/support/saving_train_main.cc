// Stands for lr-train in tests of the launcher's checkpoints: steps that only take time, the
// worker's own inbox and link, real checkpoint directories, no LibTorch. The ranks agree as
// lr-train's do (a maximum that is started at one step and read at the next), over files instead of
// collectives.
//
//   lr-train --output_dir=DIR [--steps=N] [--step_ms=N] [--jitter_ms=N] [--save_ms=N]
//   [--save_freq=N]
//            [--fail_save=STEP]
//
// Every rank writes one line per save to DIR/saves.RANK: the step and the number of the request.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "common/contract/checkpoint_layout.h"
#include "common/contract/checkpoint_scan.h"
#include "common/contract/worker_environment.h"
#include "worker/control/control.h"

namespace lr::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

std::map<std::string, std::string> Arguments(int argc, char** argv) {
  std::map<std::string, std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    arguments[word.substr(2, equals - 2)] = word.substr(equals + 1);
  }
  return arguments;
}

/// The maximum over all ranks of what each of them put in for a step; one file per rank and step.
class FileMax {
 public:
  FileMax(fs::path folder, int rank, int world)
      : folder_(std::move(folder)), rank_(rank), world_(world) {
    fs::create_directories(folder_);
  }

  void Start(int64_t step, int64_t value) const {
    const fs::path path = PathOf(step, rank_);
    std::ofstream(path.string() + ".part") << value << '\n';
    fs::rename(path.string() + ".part", path);
  }

  int64_t Wait(int64_t step) const {
    int64_t largest = 0;
    for (int rank = 0; rank < world_; ++rank) {
      while (!fs::exists(PathOf(step, rank))) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      int64_t value = 0;
      std::ifstream(PathOf(step, rank)) >> value;
      largest = std::max(largest, value);
    }
    return largest;
  }

 private:
  fs::path PathOf(int64_t step, int rank) const {
    return folder_ / fmt::format("{}.{}", step, rank);
  }

  const fs::path folder_;
  const int rank_;
  const int world_;
};

class Training {
 public:
  Training(std::map<std::string, std::string> arguments, WorkerEnvironment environment)
      : arguments_(std::move(arguments)),
        environment_(std::move(environment)),
        output_dir_(fs::absolute(arguments_["output_dir"])),
        agree_(output_dir_ / fmt::format("agree{}", ProcessEnvironment()("LR_EPOCH").value_or("0")),
               environment_.rank,
               environment_.world_size),
        random_(std::random_device{}()) {
    InstallSignalHandlers(inbox_);
    link_ = ControlLink::Start(
        environment_.control_socket, environment_.rank, output_dir_.string(), inbox_);
    if (!environment_.resume_from.empty()) {
      step_ = *ParseStepDirectoryName(fs::path(environment_.resume_from).filename().string());
    }
  }

  int Run() {
    const int64_t first = step_;
    const int64_t steps = Number("steps", 1'000'000);
    while (step_ < steps && !stop_) {
      const auto begin = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(milliseconds(Number("step_ms", 10) + Jitter()));
      ++step_;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      link_->ReportStep({.step = step_, .total_steps = steps, .step_s = took.count()});
      NumberedWord asked;
      if (step_ > first + 1) {
        asked = Unpack(agree_.Wait(step_ - 1));
        inbox_.Clear(asked);
      }
      agree_.Start(step_, Pack(inbox_.request()));
      Act(asked, steps);
    }
    link_->Goodbye(step_ < steps ? "stopped" : "done");
    return step_ < steps && inbox_.stop_signal() != 0 ? 128 + inbox_.stop_signal() : 0;
  }

 private:
  int64_t Number(const std::string& name, int64_t otherwise) const {
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? otherwise : std::stoll(found->second);
  }

  int64_t Jitter() {
    return std::uniform_int_distribution<int64_t>(0, Number("jitter_ms", 0))(random_);
  }

  void Act(const NumberedWord& asked, int64_t steps) {
    stop_ = asked.word >= ControlWord::kCheckpointAndStop;
    const int64_t every = Number("save_freq", 0);
    const bool due = (every > 0 && step_ % every == 0) || step_ == steps;
    if (due || asked.word == ControlWord::kCheckpoint ||
        asked.word == ControlWord::kCheckpointAndStop) {
      Save(asked.number);
    }
  }

  void Save(int64_t request) {
    link_->SetPhase(Phase::kCheckpoint);
    link_->ReportSaveBegun(step_, request);
    std::ofstream(output_dir_ / fmt::format("saves.{}", environment_.rank), std::ios::app)
        << step_ << ' ' << request << std::endl;
    std::this_thread::sleep_for(milliseconds(Number("save_ms", 0)));
    SaveReport report{.step = step_, .directory = "", .request = request};
    if (step_ == Number("fail_save", -1)) {
      report.outcome = ResourceExhausted("no space left on device");
    } else {
      if (environment_.rank == 0) {
        Publish();
        report.bytes = 7;
        report.write_s = static_cast<double>(Number("save_ms", 0)) / 1000.0;
      }
      agree_.Start(-step_, 0);  // published, or behind it
      (void)agree_.Wait(-step_);
      report.directory = Published().string();
    }
    link_->ReportCheckpoint(report);
  }

  fs::path Published() const {
    return output_dir_ / kCheckpointsFolder / StepDirectoryName(step_, 0);
  }

  void Publish() const {
    const fs::path final = Published();
    const fs::path temporary =
        final.parent_path() / TemporaryName(final.filename().string(), getpid(), "x");
    fs::create_directories(temporary / kTrainingStateFolder);
    std::ofstream(temporary / "content") << "content";
    std::ofstream(temporary / kManifestPath)
        << FormatManifest({.step = step_,
                           .run_id = environment_.run_id,
                           .checksum_algorithm = "crc32",
                           .files = {{"content", 7, "00000000"}}});
    fs::remove_all(final);
    fs::rename(temporary, final);
    const fs::path last = final.parent_path() / kLastName;
    fs::remove(last);
    fs::create_directory_symlink(final.filename(), last);
  }

  std::map<std::string, std::string> arguments_;
  const WorkerEnvironment environment_;
  const fs::path output_dir_;
  const FileMax agree_;
  std::mt19937 random_;
  ControlInbox inbox_;
  int64_t step_ = 0;
  bool stop_ = false;
  std::unique_ptr<ControlLink> link_;
};

}  // namespace
}  // namespace lr::worker

int main(int argc, char** argv) {
  auto environment = lr::ReadWorkerEnvironment(lr::ProcessEnvironment());
  return environment.ok()
             ? lr::worker::Training(lr::worker::Arguments(argc, argv), *environment).Run()
             : 2;
}
