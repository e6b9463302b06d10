// Five steps of every optimizer against torch's own (optimizers_expected.*), and what has no
// reference.
#include "worker/optim/optimizer.h"

#include <fstream>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"
#include "worker/checkpoint/safetensors.h"

namespace lr::worker {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::string kData = LR_TEST_DATA;
const std::vector<std::string> kNames = {"w", "b", "vlm.k", "soft_prompt.p"};

/// The reference's tensors, and fresh parameters made from them.
class Reference {
 public:
  Reference()
      : file_(std::move(SafetensorsFile::Open(kData + "/optimizers_expected.safetensors")).value()),
        json_(Json::parse(std::ifstream(kData + "/optimizers_expected.json"))) {
    for (const std::string& name : kNames) {
      params_[name] = Tensor("init/" + name).requires_grad_();
    }
  }

  at::Tensor Tensor(const std::string& name) const { return std::move(file_.Load(name)).value(); }

  at::Tensor& param(const std::string& name) { return params_.at(name); }

  const Json& json() const { return json_; }

  OptimizerGroup Group(const std::vector<std::string>& names) {
    OptimizerGroup group;
    group.names = names;
    for (const std::string& name : names) {
      group.params.push_back(param(name));
    }
    return group;
  }

  void SetGradients(int step) {
    for (auto& [name, param] : params_) {
      param.mutable_grad() = Tensor(fmt::format("grads/{}/{}", step, name));
    }
  }

 private:
  SafetensorsFile file_;
  Json json_;
  std::map<std::string, at::Tensor> params_;
};

OptimizerConfig ConfigOf(const std::string& type, const Json& fields) {
  OptimizerConfig config;
  config.type = type;
  config.lr = fields.at("lr");
  config.weight_decay = fields.at("weight_decay");
  config.eps = fields.value("eps", config.eps);
  config.momentum = fields.value("momentum", 0.0);
  config.dampening = fields.value("dampening", 0.0);
  config.nesterov = fields.value("nesterov", false);
  if (fields.contains("betas")) {
    config.betas = {fields.at("betas")[0], fields.at("betas")[1]};
  }
  if (fields.contains("soft_prompt_warmup_lr_scale")) {
    config.soft_prompt_warmup_lr_scale = fields.at("soft_prompt_warmup_lr_scale").get<double>();
  }
  return config;
}

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double scale = std::max(1e-30, expected.abs().max().item<double>());
  const double error =
      (actual.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>() / scale;
  EXPECT_LE(error, 1e-6) << what;
}

struct Case {
  std::string name;
  std::string type;
};

class OptimizerCaseTest : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerCaseTest, EqualsTorchAfterEveryStep) {
  const auto& [name, type] = GetParam();
  Reference reference;
  std::vector<OptimizerGroup> groups;
  if (name == "adamw_act") {
    groups = {reference.Group({"w", "vlm.k", "soft_prompt.p"}), reference.Group({"b"})};
    groups[1].lr = 3e-3;
    groups[1].lr_is_own = true;
  } else {
    groups = {reference.Group(kNames)};
  }
  const OptimizerConfig config = ConfigOf(type, reference.json().at("cases").at(name).at("config"));
  const auto optimizer = std::move(Optimizer::Create(config, std::move(groups))).value();
  for (int step = 0; step < 5; ++step) {
    reference.SetGradients(step);
    optimizer->Step();
    for (const std::string& param : kNames) {
      ExpectClose(reference.param(param),
                  reference.Tensor(fmt::format("{}/step{}/{}", name, step + 1, param)),
                  fmt::format("{} step {} {}", name, step + 1, param));
    }
  }
  for (const auto& [id, state] : optimizer->state()) {
    for (const auto& [key, tensor] : state) {
      ExpectClose(tensor, reference.Tensor(fmt::format("{}/state/{}/{}", name, id, key)), key);
    }
  }
  const bool has_state = type != "sgd" || config.momentum != 0.0;
  EXPECT_EQ(optimizer->state().size(), has_state ? kNames.size() : 0U);
}

INSTANTIATE_TEST_SUITE_P(All,
                         OptimizerCaseTest,
                         ::testing::Values(Case{"adam", "adam"},
                                           Case{"adam_wd", "adam"},
                                           Case{"adamw", "adamw"},
                                           Case{"adamw_act", "adamw"},
                                           Case{"adamw_big", "adamw"},
                                           Case{"sgd", "sgd"},
                                           Case{"sgd_momentum", "sgd"},
                                           Case{"sgd_nesterov", "sgd"},
                                           Case{"xvla-adamw", "xvla-adamw"}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(OptimizerTest, XvlaSortsParametersByNameWithTheReferencesRates) {
  Reference reference;
  const Json& expected = reference.json().at("cases").at("xvla-adamw");
  const auto optimizer = std::move(Optimizer::Create(ConfigOf("xvla-adamw", expected.at("config")),
                                                     {reference.Group(kNames)}))
                             .value();
  const Json& groups = expected.at("param_groups").at("");
  ASSERT_EQ(optimizer->groups().size(), groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(optimizer->groups()[i].name, groups[i].at("name"));
    EXPECT_DOUBLE_EQ(optimizer->groups()[i].lr, groups[i].at("lr"));
    EXPECT_DOUBLE_EQ(optimizer->groups()[i].options.weight_decay, groups[i].at("weight_decay"));
    EXPECT_EQ(optimizer->groups()[i].params.size(), groups[i].at("params").size());
  }
}

TEST(OptimizerTest, ParametersWithoutAGradientKeepTheirValueAndHaveNoState) {
  Reference reference;
  const auto optimizer =
      std::move(Optimizer::Create({.type = "adamw", .lr = 0.1, .weight_decay = 0.5},
                                  {reference.Group(kNames)}))
          .value();
  reference.param("b").mutable_grad() = at::ones_like(reference.param("b"));
  optimizer->Step();
  EXPECT_EQ(optimizer->state().size(), 1U);
  EXPECT_EQ(optimizer->state().count(1), 1U);
  EXPECT_TRUE(at::equal(reference.param("w"), reference.Tensor("init/w")));
}

TEST(OptimizerTest, ReadsGradientsOfAnyLayoutAndEmptyShards) {
  at::Tensor filter = at::ones({2, 3, 2, 2}).requires_grad_();
  at::Tensor plain = at::ones({2, 3, 2, 2}).requires_grad_();
  at::Tensor empty = at::ones({0, 4}).requires_grad_();
  OptimizerGroup group;
  group.names = {"filter", "plain", "empty"};
  group.params = {filter, plain, empty};
  const auto optimizer =
      std::move(Optimizer::Create({.type = "adamw", .lr = 0.1}, {group})).value();
  const at::Tensor gradient = at::arange(24, at::kFloat).view({2, 3, 2, 2});
  plain.mutable_grad() = gradient;
  filter.mutable_grad() = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  empty.mutable_grad() = at::zeros({0, 4});
  optimizer->Step();
  EXPECT_TRUE(at::equal(filter, plain));
  EXPECT_EQ(optimizer->state().at(2).at("step").item<float>(), 1.0F);
}

TEST(OptimizerTest, MomentumOfANewParameterStartsWithItsGradient) {
  at::Tensor early = at::zeros({3}).requires_grad_();
  at::Tensor late = at::zeros({3}).requires_grad_();
  OptimizerGroup group;
  group.names = {"early", "late"};
  group.params = {early, late};
  const auto optimizer =
      std::move(
          Optimizer::Create({.type = "sgd", .lr = 1.0, .momentum = 0.5, .dampening = 0.5}, {group}))
          .value();
  early.mutable_grad() = at::ones({3});
  optimizer->Step();
  early.mutable_grad() = at::ones({3});
  late.mutable_grad() = at::ones({3});
  optimizer->Step();
  EXPECT_EQ(optimizer->state().at(0).at("momentum_buffer")[0].item<float>(),
            1.0F);  // 0.5 * 1 + 0.5 * 1
  EXPECT_EQ(late[0].item<float>(), -1.0F);
}

TEST(OptimizerTest, ZeroGradDropsGradients) {
  at::Tensor param = at::zeros({3}).requires_grad_();
  param.mutable_grad() = at::ones({3});
  OptimizerGroup group;
  group.names = {"p"};
  group.params = {param};
  std::move(Optimizer::Create({}, {group})).value()->ZeroGrad();
  EXPECT_FALSE(param.grad().defined());
}

TEST(OptimizerTest, RefusesWhatItCannotDo) {
  EXPECT_THAT(Optimizer::Create({.type = "multi_adam"}, {}),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("multi_adam")));
  EXPECT_THAT(Optimizer::Create({.type = "adamv"}, {}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("did you mean"), HasSubstr("xvla-adamw"))));
  EXPECT_THAT(Optimizer::Create({.type = "sgd", .nesterov = true}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("nesterov")));
  EXPECT_THAT(Optimizer::Create({.type = "adam", .lr = -1.0}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("lr is -1")));
  EXPECT_THAT(Optimizer::Create({.type = "adam", .betas = {0.9, 1.0}}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("betas")));
}

}  // namespace
}  // namespace lr::worker
