// Samples per second of processor time of ACT's training step on the CPU: forward, backward,
// clipping, AdamW. Prints one line per model and the share of each part.
//
//   act_step_bench [--batch=8] [--steps=10] [--threads=1] [--height=96] [--width=128]
//   [--model=small|default]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include "worker/optim/optimizer.h"
#include "worker/policies/act/act_policy.h"
#include "worker/policies/policy_factory.h"

namespace lr::worker {
namespace {

struct Options {
  int64_t batch = 8;
  int64_t steps = 10;
  int64_t threads = 1;
  int64_t height = 96;
  int64_t width = 128;
  std::string model;  ///< empty: both
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--model") {
      options.model = value;
      continue;
    }
    int64_t* target = name == "--batch"     ? &options.batch
                      : name == "--steps"   ? &options.steps
                      : name == "--threads" ? &options.threads
                      : name == "--height"  ? &options.height
                      : name == "--width"   ? &options.width
                                            : nullptr;
    if (target == nullptr || value.empty()) {
      std::fprintf(stderr, "act_step_bench: unknown argument '%s'\n", argv[i]);
      std::exit(2);
    }
    *target = std::stoll(value);
  }
  return options;
}

ActConfig MakeConfig(const Options& options, bool is_small) {
  ActConfig config;
  config.pretrained_backbone_weights.reset();
  const PolicyFeature camera{FeatureType::kVisual, {3, options.height, options.width}};
  config.input_features = {{"observation.images.top", camera},
                           {"observation.images.wrist", camera},
                           {"observation.state", {FeatureType::kState, {6}}}};
  config.output_features = {{"action", {FeatureType::kAction, {6}}}};
  if (is_small) {
    config.dim_model = 32;
    config.n_heads = 2;
    config.dim_feedforward = 64;
    config.n_encoder_layers = 2;
    config.n_vae_encoder_layers = 1;
    config.chunk_size = config.n_action_steps = 8;
    config.latent_dim = 8;
  }
  return config;
}

Batch MakeBatch(const Options& options, int64_t chunk) {
  Batch batch;
  for (const char* camera : {"observation.images.top", "observation.images.wrist"}) {
    batch.tensors[camera] = at::randn({options.batch, 3, options.height, options.width});
  }
  batch.tensors["observation.state"] = at::randn({options.batch, 6});
  batch.tensors["action"] = at::randn({options.batch, chunk, 6});
  batch.tensors["action_is_pad"] = at::zeros({options.batch, chunk}, at::kBool);
  return batch;
}

/// Processor time of the whole process: with one thread it is the step's duration, and other load
/// on the machine hardly moves it.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Measure(const Options& options, bool is_small) {
  torch::manual_seed(1000);
  const ActConfig config = MakeConfig(options, is_small);
  const auto policy = std::move(ACTPolicy::Create(config)).value();
  const auto optimizer =
      std::move(Optimizer::Create(config.OptimizerPreset(), MakeOptimizerGroups(*policy))).value();
  const std::vector<at::Tensor> parameters = policy->parameters();
  const Batch batch = MakeBatch(options, config.chunk_size);

  constexpr int64_t kWarmUp = 2;
  std::vector<double> forward, backward, update, total;
  for (int64_t step = -kWarmUp; step < options.steps; ++step) {
    const double start = CpuSeconds();
    const PolicyOutput output = policy->forward(batch);
    const double after_forward = CpuSeconds() - start;
    output.loss.backward();
    const double after_backward = CpuSeconds() - start;
    ClipGradNorm(parameters, config.OptimizerPreset().grad_clip_norm);
    optimizer->Step();
    optimizer->ZeroGrad();
    const double after_update = CpuSeconds() - start;
    if (step >= 0) {
      forward.push_back(after_forward);
      backward.push_back(after_backward - after_forward);
      update.push_back(after_update - after_backward);
      total.push_back(after_update);
    }
  }
  fmt::print(
      "act {:8} batch {} threads {}: {:7.2f} samples/s, step {:.1f} ms = forward {:.1f} + backward "
      "{:.1f} + update {:.1f}\n",
      is_small ? "small" : "default",
      options.batch,
      options.threads,
      static_cast<double>(options.batch) / Median(total),
      Median(total) * 1e3,
      Median(forward) * 1e3,
      Median(backward) * 1e3,
      Median(update) * 1e3);
}

}  // namespace
}  // namespace lr::worker

int main(int argc, char** argv) {
  const auto options = lr::worker::Parse(argc, argv);
  at::set_num_threads(static_cast<int>(options.threads));
  for (const bool is_small : {true, false}) {
    if (options.model.empty() || options.model == (is_small ? "small" : "default")) {
      lr::worker::Measure(options, is_small);
    }
  }
  return 0;
}
