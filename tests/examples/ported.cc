// One training loop, on one process (plain.cc) and on many (ported.cc). Arguments of both: batch
// size, steps between halvings of the rate; of the second also accumulated passes and degree of
// sharding (-1: all). Prints every loss.
#include <cstdio>
#include <string>

#include <lr/accelerator.h>
#include <torch/torch.h>

struct BlockImpl : lr::UnitModule {
  BlockImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    up = register_module("up", torch::nn::Linear(16, 33));
    down = register_module("down", torch::nn::Linear(33, 16));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto mix = [this](const torch::Tensor& in) {
      return in + down(torch::gelu(up(norm(in))));
    };
    return CallAsUnit(mix, x);
  }

  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
};

TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    embed = register_module("embed", torch::nn::Linear(2, 16));
    first = register_module("first", Block());
    second = register_module("second", Block());
    head = register_module("head", torch::nn::Linear(16, 1));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return head(second->forward(first->forward(embed(x))));
  }

  torch::nn::Linear embed{nullptr}, head{nullptr};
  Block first{nullptr}, second{nullptr};
};

TORCH_MODULE(Net);

/// Points of a smooth surface.
struct Surface : torch::data::datasets::Dataset<Surface> {
  torch::data::Example<> get(size_t index) override {
    const torch::Tensor at = torch::tensor({0.1F * index, 1.0F - 0.02F * index});
    return {at, torch::sin(at[0]).add(at[1]).unsqueeze(0)};
  }

  torch::optional<size_t> size() const override { return 96; }
};

int main(int argc, char** argv) {
  const auto number = [&](int i) { return i < argc ? std::stoi(argv[i]) : 1; };
  lr::Accelerator accelerator(
      {.gradient_accumulation_steps = number(3), .parallelism = {.dp_shard = number(4)}});
  torch::manual_seed(7);
  Net net;
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(1e-2));
  torch::optim::StepLR steplr(adamw, number(2), 0.5);
  auto data = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Surface().map(torch::data::transforms::Stack<>()), number(1));

  const auto train = [&](auto&& model, auto&& optimizer, auto&& scheduler, auto&& loader) {
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (auto& batch : loader) {
        const auto pass = accelerator.accumulate(model);
        auto loss = torch::mse_loss(model(batch.data), batch.target);
        accelerator.backward(loss);
        accelerator.clip_grad_norm_(model->parameters(), 1.0);
        optimizer.step();
        scheduler.step();
        optimizer.zero_grad();
        std::printf("%.9g\n", loss.template item<double>());
      }
    }
  };
  std::apply(train, accelerator.prepare(net, adamw, steplr, data));
}
