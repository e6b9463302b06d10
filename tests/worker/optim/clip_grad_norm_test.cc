// Clipping against torch.nn.utils.clip_grad_norm_ (optimizers_expected.json).
#include <fstream>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/optim/optimizer.h"

namespace lr::worker {
namespace {

using Json = nlohmann::ordered_json;

at::Tensor WithGradient(const at::Tensor& gradient) {
  at::Tensor param = at::zeros_like(gradient).requires_grad_();
  param.mutable_grad() = gradient;
  return param;
}

TEST(ClipGradNormTest, EqualsTorch) {
  const std::string data = LR_TEST_DATA;
  const Json json = Json::parse(std::ifstream(data + "/optimizers_expected.json"));
  const SafetensorsFile file =
      std::move(SafetensorsFile::Open(data + "/optimizers_expected.safetensors")).value();
  for (const Json& row : json.at("clip_grad_norm").at("rows")) {
    std::vector<at::Tensor> params;
    for (const std::string name : json.at("param_order")) {
      params.push_back(WithGradient(std::move(file.Load("grads/3/" + name)).value()));
    }
    const at::Tensor norm = ClipGradNorm(params, row.at("max_norm"));
    EXPECT_FLOAT_EQ(norm.item<float>(), row.at("norm_before").get<float>());
    for (size_t i = 0; i < params.size(); ++i) {
      EXPECT_FLOAT_EQ(params[i].grad().norm().item<float>(), row.at("after")[i].get<float>());
    }
  }
}

TEST(ClipGradNormTest, WithoutGradientsTheNormIsZero) {
  const at::Tensor norm = ClipGradNorm({at::zeros({2})}, 1.0);
  EXPECT_EQ(norm.item<float>(), 0.0F);
  EXPECT_EQ(norm.scalar_type(), at::kFloat);
}

TEST(ClipGradNormTest, AMaximumOfZeroOnlyMeasures) {
  const std::vector<at::Tensor> params = {WithGradient(at::full({4}, 10.0))};
  EXPECT_EQ(ClipGradNorm(params, 0.0).item<float>(), 20.0F);
  EXPECT_EQ(params[0].grad()[0].item<float>(), 10.0F);
}

TEST(ClipGradNormTest, CountsMixedTypesAndEmptyTensorsOnce) {
  const std::vector<at::Tensor> params = {WithGradient(at::full({2}, 3.0)),
                                          WithGradient(at::full({2}, 4.0, at::kBFloat16)),
                                          WithGradient(at::zeros({0}))};
  EXPECT_NEAR(ClipGradNorm(params, 1.0).item<float>(), std::sqrt(50.0), 1e-5);
  EXPECT_NEAR(params[1].grad()[0].item<float>(), 4.0 / std::sqrt(50.0), 1e-2);
  EXPECT_EQ(params[1].grad().scalar_type(), at::kBFloat16);
}

TEST(ClipGradNormTest, ANormThatIsNotFiniteSpoilsEveryGradient) {
  const std::vector<at::Tensor> params = {
      WithGradient(at::full({2}, std::numeric_limits<float>::quiet_NaN())),
      WithGradient(at::ones({2}))};
  EXPECT_TRUE(std::isnan(ClipGradNorm(params, 1.0).item<float>()));
  EXPECT_TRUE(std::isnan(params[1].grad()[0].item<float>()));
}

}  // namespace
}  // namespace lr::worker
