// lr-train with an observer: every step's exact numbers go to $LR_PROBE_DIR/rank<RANK>.jsonl. For
// the e2e tests only.
#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include "worker/train/train_main.h"

int main(int argc, char** argv) {
  const char* directory = std::getenv("LR_PROBE_DIR");
  const char* rank = std::getenv("RANK");
  std::ofstream out(std::string(directory == nullptr ? "." : directory) + "/rank" +
                        (rank == nullptr ? "0" : rank) + ".jsonl",
                    std::ios::app);
  const auto observe = [&](int64_t step,
                           const lr::worker::Batch& batch,
                           const lr::worker::StepOutputs& outputs,
                           double lr) {
    nlohmann::ordered_json line = {
        {"step", step}, {"loss", outputs.loss}, {"lr", lr}, {"index", nlohmann::json::array()}};
    if (outputs.grad_norm) {
      line["grad_norm"] = *outputs.grad_norm;
    }
    for (const auto& [name, value] : outputs.metrics) {
      line[name] = value;
    }
    const at::Tensor index = batch.tensors.at("index").to(at::kLong).contiguous();
    for (int64_t i = 0; i < index.numel(); ++i) {
      line["index"].push_back(index.data_ptr<int64_t>()[i]);
    }
    out << line.dump() << std::endl;
  };
  return lr::worker::TrainMain({argv + 1, argv + argc}, observe);
}
