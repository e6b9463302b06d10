// A new ACT against LeRobot's: names, shapes, order, values, and the number of random draws
// (policies.md A.4, A.9, F).
#include "tests/worker/policies/act/act_fixture.h"

namespace lr::worker {
namespace {

using testing::DefaultAct;
using testing::Digest;
using testing::ExpectChecksum;
using testing::MakeAct;
using testing::ReadActJson;
using testing::SmallAct;

/// Drawn by Box and Muller's method, whose transcendental functions differ between processors.
bool IsNormal(const std::string& name) {
  return name.ends_with("embed.weight") ||
         (name.find("backbone") != std::string::npos &&
          (name.find("conv") != std::string::npos || name.ends_with("downsample.0.weight")));
}

void ExpectState(const ACTPolicy& policy, const Json& expected) {
  const NamedTensors state = StateDict(policy);
  ASSERT_EQ(state.size(), expected.size());
  auto in_order = expected.begin();
  int n_normal_equal = 0;
  int n_normal = 0;
  for (const auto& [name, tensor] : state) {
    ASSERT_EQ(name, in_order.key());
    const Json& checksum = *in_order++;
    ExpectChecksum(tensor, checksum, 1e-6, name);
    const bool is_equal = Digest(tensor) == checksum.at("sha256_16");
    if (IsNormal(name)) {
      ++n_normal;
      n_normal_equal += is_equal ? 1 : 0;
    } else {
      EXPECT_TRUE(is_equal) << name;
    }
  }
  ::testing::Test::RecordProperty("normal_tensors", n_normal);
  ::testing::Test::RecordProperty("normal_tensors_equal_bit_for_bit", n_normal_equal);
}

void ExpectNextDraws(const Json& expected) {
  const at::Tensor next = at::rand({static_cast<int64_t>(expected.size())});
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(next[static_cast<int64_t>(i)].item<float>(), expected[i].get<float>()) << i;
  }
}

TEST(ActInitTest, SmallModelEqualsTheReference) {
  const auto policy = MakeAct(SmallAct());
  const Json expected = ReadActJson("init_checksums.json");
  ExpectNextDraws(expected.at("next_four_torch_rand_after_construction"));
  ExpectState(*policy, expected.at("state_dict"));
}

TEST(ActInitTest, DefaultModelEqualsTheReference) {
  ActConfig config = SmallAct();
  const ActConfig defaults;
  config.dim_model = defaults.dim_model;
  config.n_heads = defaults.n_heads;
  config.dim_feedforward = defaults.dim_feedforward;
  config.n_encoder_layers = defaults.n_encoder_layers;
  config.n_vae_encoder_layers = defaults.n_vae_encoder_layers;
  config.chunk_size = defaults.chunk_size;
  config.n_action_steps = defaults.n_action_steps;
  config.latent_dim = defaults.latent_dim;
  const auto policy = MakeAct(config);
  const Json expected = ReadActJson("init_checksums_default_size.json");
  ExpectNextDraws(expected.at("next_four_torch_rand_after_construction"));
  ExpectState(*policy, expected.at("state_dict"));
}

TEST(ActInitTest, ParametersAreRegisteredInTheReferencesOrder) {
  const auto policy = MakeAct(SmallAct());
  std::vector<std::string> names;
  for (const auto& item : policy->named_parameters()) {
    names.push_back(item.key());
  }
  EXPECT_EQ(
      names,
      ReadActJson("init_checksums.json").at("parameter_order").get<std::vector<std::string>>());
}

TEST(ActInitTest, GroupsAreTheReferencesInOrder) {
  ActConfig config = SmallAct();
  config.optimizer_lr_backbone = 3e-6;
  const auto groups = MakeAct(config)->ParameterGroups();
  const Json expected = ReadActJson("init_checksums.json").at("optimizer_groups");
  ASSERT_EQ(groups.size(), expected.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].names, expected[i].at("params").get<std::vector<std::string>>());
  }
  EXPECT_FALSE(groups[0].lr.has_value());
  EXPECT_EQ(groups[1].lr, 3e-6);
}

TEST(ActInitTest, CameraCountChangesNoTensor) {
  ActConfig two = DefaultAct(14, 14, {3, 480, 640});
  two.input_features.emplace_back("observation.images.wrist",
                                  PolicyFeature{FeatureType::kVisual, {3, 240, 320}});
  const NamedTensors state = StateDict(*MakeAct(two));
  ASSERT_EQ(state.size(), 234U);
  int64_t n_elements = 0;
  for (const auto& [name, tensor] : state) {
    n_elements += tensor.numel();
  }
  EXPECT_EQ(n_elements, 51'685'006);
}

struct Vector {
  std::string name;
  std::array<float, 4> first;
  double sum;
  double abs_sum;
  bool is_uniform;
};

/// Section F of the specification: seed 1000, default configuration, 14 joints.
const Vector kVectors[] = {
    {"vae_encoder.layers.0.self_attn.in_proj_weight",
     {0.00309085054F, 0.0127605991F, 0.0278957933F, -0.00673809089F},
     35.485690560,
     21270.050258,
     true},
    {"vae_encoder.layers.3.linear2.bias",
     {-0.0131762456F, -0.0174435228F, -0.0176166054F, -0.0139244366F},
     -0.337594113,
     4.617169,
     true},
    {"vae_encoder_cls_embed.weight",
     {-0.826653361F, 0.85226357F, -0.322707146F, -0.136610329F},
     -6.852916364,
     411.032293,
     false},
    {"vae_encoder_robot_state_input_proj.weight",
     {-0.0121271992F, -0.193017513F, 0.121335074F, -0.210671023F},
     3.280399232,
     959.561045,
     true},
    {"backbone.conv1.weight",
     {0.0120344646F, -0.0296922885F, 0.011545415F, -0.00807938352F},
     -0.607303556,
     187.930801,
     false},
    {"backbone.layer4.1.conv2.weight",
     {-0.0172791779F, -0.0368513167F, -0.00138234533F, -0.0272928178F},
     54.285200126,
     39191.573101,
     false},
    {"encoder.layers.0.self_attn.in_proj_weight",
     {0.0086879069F, 0.0249388553F, 0.0305152126F, 0.0194309335F},
     -0.015321930,
     21267.366907,
     true},
    {"encoder.layers.3.linear2.weight",
     {0.011514008F, 0.0122712953F, -0.0233738143F, -0.0347569473F},
     -18.721975931,
     32960.299117,
     true},
    {"decoder.layers.0.multihead_attn.in_proj_weight",
     {0.0515095629F, -0.0415870845F, -0.0121836448F, -0.0242954362F},
     32.068399952,
     21288.716409,
     true},
    {"encoder_img_feat_input_proj.bias",
     {-0.0270576291F, -0.0237494335F, 0.0064254608F, -0.0312075485F},
     -0.350009665,
     11.443126,
     true},
    {"encoder_1d_feature_pos_embed.weight",
     {-1.33421898F, 0.20308204F, 0.773509085F, -1.78084874F},
     16.934024470,
     846.299517,
     false},
    {"decoder_pos_embed.weight",
     {-0.665360689F, 0.74260813F, -0.330554456F, 0.600295246F},
     147.234543652,
     40955.373150,
     false},
    {"action_head.weight",
     {0.00292987493F, 0.0115071014F, 0.0141768139F, 0.0140146958F},
     1.502268298,
     157.234717,
     true},
    {"action_head.bias",
     {0.020912528F, -0.0201529413F, -0.0127746407F, -0.0122133605F},
     -0.055894647,
     0.257113,
     true},
};

TEST(ActInitTest, DefaultModelEqualsTheSpecificationsVectors) {
  const auto policy = MakeAct(DefaultAct(14, 14, {3, 480, 640}));
  ExpectNextDraws({0.19281983375549316, 0.055378854274749756, 0.15060794353485107});
  const auto parameters = policy->named_parameters();
  for (const Vector& vector : kVectors) {
    const at::Tensor& tensor = parameters["model." + vector.name];
    const at::Tensor flat = tensor.detach().flatten();
    for (int64_t i = 0; i < 4; ++i) {
      const float expected = vector.first[static_cast<size_t>(i)];
      EXPECT_NEAR(flat[i].item<float>(), expected, vector.is_uniform ? 1e-9 : 1e-6) << vector.name;
    }
    EXPECT_NEAR(testing::Sum(tensor), vector.sum, vector.is_uniform ? 1e-9 : vector.abs_sum * 1e-6)
        << vector.name;
    EXPECT_NEAR(testing::AbsSum(tensor), vector.abs_sum, vector.abs_sum * 1e-6) << vector.name;
  }
  EXPECT_NEAR(
      testing::Sum(policy->named_buffers()["model.vae_encoder_pos_enc"]), 18607.603333601, 1e-6);
}

}  // namespace
}  // namespace lr::worker
