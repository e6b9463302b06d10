#include "worker/policies/act/act_config.h"

#include "common/config/group.h"

namespace lr::worker {

namespace {

Status CheckSizes(const ActConfig& c) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"chunk_size", c.chunk_size},
      {"n_action_steps", c.n_action_steps},
      {"dim_model", c.dim_model},
      {"n_heads", c.n_heads},
      {"dim_feedforward", c.dim_feedforward},
      {"n_encoder_layers", c.n_encoder_layers},
      {"n_decoder_layers", c.n_decoder_layers},
      {"latent_dim", c.latent_dim},
      {"n_vae_encoder_layers", c.n_vae_encoder_layers},
  };
  for (const auto& [name, value] : sizes) {
    if (value < 1) {
      return InvalidArgument("--policy.{}={}: must be at least 1", name, value);
    }
  }
  if (c.dim_model % c.n_heads != 0) {
    return InvalidArgument(
        "--policy.dim_model={} must be divisible by --policy.n_heads={}", c.dim_model, c.n_heads);
  }
  if (c.dim_model % 2 != 0) {
    return InvalidArgument("--policy.dim_model={} must be even (position codes)", c.dim_model);
  }
  if (c.dropout < 0.0 || c.dropout >= 1.0) {
    return InvalidArgument("--policy.dropout={}: must be in [0, 1)", c.dropout);
  }
  return {};
}

Status CheckActions(const ActConfig& c) {
  if (c.temporal_ensemble_coeff && c.n_action_steps > 1) {
    return InvalidArgument(
        "--policy.n_action_steps={}: must be 1 with --policy.temporal_ensemble_coeff={}, since "
        "every step is predicted anew",
        c.n_action_steps,
        *c.temporal_ensemble_coeff);
  }
  if (c.n_action_steps > c.chunk_size) {
    return InvalidArgument("--policy.n_action_steps={} exceeds --policy.chunk_size={}",
                           c.n_action_steps,
                           c.chunk_size);
  }
  if (c.n_obs_steps != 1) {
    return InvalidArgument("--policy.n_obs_steps={}: ACT takes exactly 1", c.n_obs_steps);
  }
  return {};
}

Status CheckNetwork(const ActConfig& c) {
  if (!c.vision_backbone.starts_with("resnet")) {
    return InvalidArgument("--policy.vision_backbone={}: must be a ResNet, for example resnet18",
                           c.vision_backbone);
  }
  const std::string& activation = c.feedforward_activation;
  if (activation == "glu") {
    return InvalidArgument(
        "--policy.feedforward_activation=glu halves the width and cannot feed the second layer; "
        "use relu or gelu");
  }
  if (activation != "relu" && activation != "gelu") {
    return InvalidArgument("--policy.feedforward_activation={}: use relu or gelu", activation);
  }
  return {};
}

/// Only once the features are known (after the dataset was read, or from a checkpoint).
Status CheckFeatures(const ActConfig& c) {
  if (c.input_features.empty() && c.output_features.empty()) {
    return {};
  }
  bool has_source = false;
  for (const auto& [key, feature] : c.input_features) {
    has_source = has_source || feature.type == FeatureType::kEnv;
    if (feature.type != FeatureType::kVisual) {
      continue;
    }
    has_source = true;
    if (feature.shape.size() != 3 || feature.shape[1] < 32 || feature.shape[2] < 32) {
      return InvalidArgument("{}: shape [{}] must be channels, height, width with at least 32x32",
                             key,
                             fmt::join(feature.shape, ", "));
    }
  }
  if (!has_source) {
    return InvalidArgument("ACT needs a camera or observation.environment_state among its inputs");
  }
  const PolicyFeature* action = FindFeature(c.output_features, "action");
  if (action == nullptr || action->shape.size() != 1) {
    return InvalidArgument("the dataset needs a one-dimensional feature 'action'");
  }
  return {};
}

}  // namespace

ActConfig::ActConfig() {
  type = "act";
  normalization_mapping = {{"VISUAL", NormalizationMode::kMeanStd},
                           {"STATE", NormalizationMode::kMeanStd},
                           {"ACTION", NormalizationMode::kMeanStd}};
}

std::unique_ptr<PolicyConfig> ActConfig::Clone() const {
  return std::make_unique<ActConfig>(*this);
}

Status ActConfig::Validate() const {
  LR_TRY(CheckSizes(*this));
  LR_TRY(CheckActions(*this));
  LR_TRY(CheckNetwork(*this));
  return CheckFeatures(*this);
}

PolicyWindows ActConfig::Windows() const {
  PolicyWindows windows;
  for (int64_t step = 0; step < chunk_size; ++step) {
    windows.action.push_back(step);
  }
  return windows;
}

OptimizerConfig ActConfig::OptimizerPreset() const {
  OptimizerConfig preset;
  preset.type = "adamw";
  preset.lr = optimizer_lr;
  preset.weight_decay = optimizer_weight_decay;
  return preset;
}

std::vector<std::pair<std::string, double*>> ActConfig::OwnLearningRates() {
  return {{"optimizer_lr_backbone", &optimizer_lr_backbone}};
}

void ActConfig::Describe(config::Group& group) {
  DescribeCommon(group);
  group.Add("chunk_size", chunk_size, "Actions predicted at once.");
  group.Add("n_action_steps", n_action_steps, "Actions executed per prediction.");
  DescribeNormalization(group);
  group.Add("vision_backbone", vision_backbone, "ResNet that reads the cameras.");
  group.Add("pretrained_backbone_weights",
            pretrained_backbone_weights,
            "ImageNet weights of the backbone by torchvision's name; null: random.");
  config::Group::Field& dilation =
      group.Add("replace_final_stride_with_dilation",
                replace_final_stride_with_dilation,
                "Dilation instead of the last stride (resnet50 and larger).");
  // Declared as an integer upstream with the default `false`: both forms are read, 0 is written so.
  dilation.read = [this](const config::Value& value) {
    bool flag = false;
    if (config::Convert<bool>::Read(value, flag).ok()) {
      replace_final_stride_with_dilation = flag ? 1 : 0;
      return Status();
    }
    return config::Convert<int64_t>::Read(value, replace_final_stride_with_dilation);
  };
  dilation.write = [this] {
    const int64_t value = replace_final_stride_with_dilation;
    return value == 0 ? Json(false) : Json(value);
  };
  group.Add("pre_norm", pre_norm, "Normalise before each block instead of after it.");
  group.Add("dim_model", dim_model, "Width of the transformer.");
  group.Add("n_heads", n_heads, "Attention heads.");
  group.Add("dim_feedforward", dim_feedforward, "Width inside the feed-forward blocks.");
  group.Add("feedforward_activation", feedforward_activation, "relu or gelu.");
  group.Add("n_encoder_layers", n_encoder_layers, "Encoder layers.");
  group.Add("n_decoder_layers", n_decoder_layers, "Decoder layers.");
  group.Add("use_vae", use_vae, "Train with the variational encoder.");
  group.Add("latent_dim", latent_dim, "Width of its latent.");
  group.Add("n_vae_encoder_layers", n_vae_encoder_layers, "Its layers.");
  group.Add("temporal_ensemble_coeff",
            temporal_ensemble_coeff,
            "Weight of older predictions when every step is predicted anew; null: off.");
  group.Add("dropout", dropout, "Dropout rate.");
  group.Add("kl_weight", kl_weight, "Weight of the KL term of the loss.");
  group.Add("optimizer_lr", optimizer_lr, "Learning rate of the preset.");
  group.Add("optimizer_weight_decay", optimizer_weight_decay, "Weight decay of the preset.");
  group.Add("optimizer_lr_backbone", optimizer_lr_backbone, "Learning rate of the backbone.");
}

}  // namespace lr::worker
