// ACT's forward pass. Dimensions: B batch, T chunk, A action, S state, D width, Z latent, N camera
// tokens.
//
// All frames of one size go through the backbone in one call: on the CPU that is where a training
// step spends its time.
#include "worker/policies/act/act_network.h"

#include <utility>

#include <torch/nn/init.h>

namespace lr::worker {

namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Embedding;

constexpr const char* kStateKey = "observation.state";
constexpr const char* kActionKey = "action";
constexpr const char* kPaddingKey = "action_is_pad";

const at::Tensor& Need(const Batch& batch, const std::string& key) {
  const at::Tensor* tensor = batch.Find(key);
  TORCH_CHECK(
      tensor != nullptr, "the batch has no '", key, "', which the policy was configured with");
  return *tensor;
}

/// The layout in which convolutions run fastest. Channels last saves a conversion of every
/// activation and costs a slow one of every weight, so that on the CPU it pays for many pixels
/// only: forward and backward on one thread take 1.25 times as long with it for 16 frames of 96 x
/// 128, and 0.86 times for 4 frames of 480 x 640.
at::MemoryFormat FrameLayout(const at::Tensor& frame, int64_t n_cameras) {
  constexpr int64_t kManyPixels = 400'000;
  const int64_t pixels = n_cameras * frame.size(0) * frame.size(2) * frame.size(3);
  return frame.is_cpu() && pixels < kManyPixels ? at::MemoryFormat::Contiguous
                                                : at::MemoryFormat::ChannelsLast;
}

/// Frames of different cameras under one another: [sum of B, 3, H, W].
at::Tensor StackFrames(const std::vector<at::Tensor>& frames) {
  const auto n_cameras = static_cast<int64_t>(frames.size());
  const at::MemoryFormat layout = FrameLayout(frames[0], n_cameras);
  if (n_cameras == 1) {
    return frames[0].contiguous(layout);
  }
  std::vector<int64_t> shape = frames[0].sizes().vec();
  shape[0] *= n_cameras;
  at::Tensor stacked = at::empty(shape, frames[0].options(), layout);
  const std::vector<at::Tensor> places = stacked.chunk(n_cameras);
  for (size_t i = 0; i < frames.size(); ++i) {
    places[i].copy_(frames[i]);
  }
  return stacked;
}

Status CheckWidth(const ActConfig& config, bool has_cameras) {
  if (config.n_heads <= 0 || config.dim_model % config.n_heads != 0) {
    return InvalidArgument("policy.dim_model {} is not a multiple of policy.n_heads {}",
                           config.dim_model,
                           config.n_heads);
  }
  if (has_cameras && config.dim_model % 4 != 0) {
    return InvalidArgument(
        "policy.dim_model is {}; with cameras it must be a multiple of 4, as their position codes "
        "have a sine and a cosine "
        "for each image axis",
        config.dim_model);
  }
  if (config.feedforward_activation != "relu" && config.feedforward_activation != "gelu") {
    return InvalidArgument("policy.feedforward_activation is '{}'; it must be relu or gelu",
                           config.feedforward_activation);
  }
  return {};
}

Status CheckFrame(const std::string& key, const PolicyFeature& feature) {
  constexpr int64_t kSmallest = 32;
  const std::vector<int64_t>& shape = feature.shape;
  if (shape.size() != 3 || shape[0] != 3) {
    return InvalidArgument(
        "camera '{}' has shape [{}]; ACT needs [3, height, width]", key, fmt::join(shape, ", "));
  }
  if (shape[1] < kSmallest || shape[2] < kSmallest) {
    return InvalidArgument("camera '{}' is {} x {} pixels; ACT's backbone needs at least {} x {}",
                           key,
                           shape[1],
                           shape[2],
                           kSmallest,
                           kSmallest);
  }
  return {};
}

Status CheckVector(const std::string& key, const PolicyFeature& feature) {
  if (feature.shape.size() != 1 || feature.shape[0] < 1) {
    return InvalidArgument("feature '{}' has shape [{}]; ACT needs one dimension",
                           key,
                           fmt::join(feature.shape, ", "));
  }
  return {};
}

}  // namespace

Result<ActFeatures> FindActFeatures(const ActConfig& config) {
  ActFeatures features;
  for (const auto& [key, feature] : config.input_features) {
    if (feature.type == FeatureType::kVisual) {
      LR_TRY(CheckFrame(key, feature));
      features.cameras.push_back(key);
    } else if (feature.type == FeatureType::kState && key == kStateKey) {
      LR_TRY(CheckVector(key, feature));
      features.state_size = feature.shape[0];
    } else if (feature.type == FeatureType::kEnv && !features.env_size) {
      LR_TRY(CheckVector(key, feature));
      features.env_key = key;
      features.env_size = feature.shape[0];
    }
  }
  const PolicyFeature* action = FindFeature(config.output_features, kActionKey);
  if (action == nullptr || action->type != FeatureType::kAction) {
    return InvalidArgument("ACT needs an output feature 'action' of type ACTION");
  }
  LR_TRY(CheckVector(kActionKey, *action));
  features.action_size = action->shape[0];
  if (features.cameras.empty() && !features.env_size) {
    return InvalidArgument(
        "ACT needs at least one camera or an environment state among its inputs");
  }
  LR_TRY(CheckWidth(config, !features.cameras.empty()));
  return features;
}

ACTImpl::ACTImpl(const ActConfig& config, ActFeatures features, const ResNetShape& backbone)
    : config_(config), features_(std::move(features)), pixel_codes_(config.dim_model) {
  if (config_.use_vae) {
    AddVaeEncoder();
  }
  AddTransformer(backbone);
  DrawXavier();
}

void ACTImpl::AddVaeEncoder() {
  const int64_t dim = config_.dim_model;
  vae_encoder_ = register_module("vae_encoder", ACTEncoder(config_, config_.n_vae_encoder_layers));
  vae_encoder_cls_embed_ = register_module("vae_encoder_cls_embed", Embedding(1, dim));
  if (features_.state_size) {
    vae_encoder_robot_state_input_proj_ =
        register_module("vae_encoder_robot_state_input_proj", Linear(*features_.state_size, dim));
  }
  vae_encoder_action_input_proj_ =
      register_module("vae_encoder_action_input_proj", Linear(features_.action_size, dim));
  vae_encoder_latent_output_proj_ =
      register_module("vae_encoder_latent_output_proj", Linear(dim, config_.latent_dim * 2));
  const int64_t length = config_.chunk_size + 1 + (features_.state_size ? 1 : 0);
  vae_encoder_pos_enc_ =
      register_buffer("vae_encoder_pos_enc", SinusoidalTable(length, dim).unsqueeze(0));
}

void ACTImpl::AddTransformer(const ResNetShape& backbone) {
  const int64_t dim = config_.dim_model;
  const bool has_cameras = !features_.cameras.empty();
  if (has_cameras) {
    backbone_ = register_module("backbone",
                                ResNet(backbone, config_.replace_final_stride_with_dilation != 0));
  }
  encoder_ = register_module("encoder", ACTEncoder(config_, config_.n_encoder_layers));
  decoder_ = register_module("decoder", ACTDecoder(config_));
  int64_t n_vectors = 1;
  if (features_.state_size) {
    encoder_robot_state_input_proj_ =
        register_module("encoder_robot_state_input_proj", Linear(*features_.state_size, dim));
    ++n_vectors;
  }
  if (features_.env_size) {
    encoder_env_state_input_proj_ =
        register_module("encoder_env_state_input_proj", Linear(*features_.env_size, dim));
    ++n_vectors;
  }
  encoder_latent_input_proj_ =
      register_module("encoder_latent_input_proj", Linear(config_.latent_dim, dim));
  if (has_cameras) {
    encoder_img_feat_input_proj_ = register_module(
        "encoder_img_feat_input_proj", Conv2d(Conv2dOptions(backbone.out_channels(), dim, 1)));
  }
  encoder_1d_feature_pos_embed_ =
      register_module("encoder_1d_feature_pos_embed", Embedding(n_vectors, dim));
  decoder_pos_embed_ = register_module("decoder_pos_embed", Embedding(config_.chunk_size, dim));
  action_head_ = register_module("action_head", Linear(dim, features_.action_size));
}

void ACTImpl::DrawXavier() {
  for (const torch::nn::Module* part : {static_cast<torch::nn::Module*>(encoder_.get()),
                                        static_cast<torch::nn::Module*>(decoder_.get())}) {
    for (const at::Tensor& parameter : part->parameters()) {
      if (parameter.dim() > 1) {
        torch::nn::init::xavier_uniform_(parameter);
      }
    }
  }
}

ACTImpl::Output ACTImpl::forward(const Batch& batch) {
  Output output;
  const at::Tensor latent = EncodeLatent(batch, output);

  std::vector<at::Tensor> tokens = {encoder_latent_input_proj_(latent).unsqueeze(0)};
  std::vector<at::Tensor> positions = {encoder_1d_feature_pos_embed_->weight.unsqueeze(1)};
  if (features_.state_size) {
    tokens.push_back(encoder_robot_state_input_proj_(Need(batch, kStateKey)).unsqueeze(0));
  }
  if (features_.env_size) {
    tokens.push_back(encoder_env_state_input_proj_(Need(batch, features_.env_key)).unsqueeze(0));
  }
  AppendCameraTokens(batch, tokens, positions);
  const at::Tensor places = at::cat(positions);
  const at::Tensor memory = encoder_(at::cat(tokens), places);

  const at::Tensor queries = decoder_pos_embed_->weight.unsqueeze(1);
  const at::Tensor start =
      at::zeros({config_.chunk_size, latent.size(0), config_.dim_model}, places.options());
  const at::Tensor decoded_TBD = decoder_(start, queries, memory, places);
  output.actions = action_head_(decoded_TBD.transpose(0, 1));
  return output;
}

at::Tensor ACTImpl::EncodeLatent(const Batch& batch, Output& output) {
  const at::Tensor& first_input =
      Need(batch, features_.cameras.empty() ? features_.env_key : features_.cameras[0]);
  const int64_t batch_size = first_input.size(0);
  if (!config_.use_vae || !is_training()) {
    return at::zeros({batch_size, config_.latent_dim}, first_input.options().dtype(at::kFloat));
  }
  std::vector<at::Tensor> tokens = {
      vae_encoder_cls_embed_->weight.unsqueeze(0).expand({1, batch_size, -1})};
  if (features_.state_size) {
    tokens.push_back(vae_encoder_robot_state_input_proj_(Need(batch, kStateKey)).unsqueeze(0));
  }
  tokens.push_back(vae_encoder_action_input_proj_(Need(batch, kActionKey)).transpose(0, 1));

  const at::Tensor& padding_BT = Need(batch, kPaddingKey);
  const int64_t n_never_ignored = static_cast<int64_t>(tokens.size()) - 1;
  const at::Tensor ignored_keys =
      at::cat({at::zeros({batch_size, n_never_ignored}, padding_BT.options()), padding_BT}, 1);
  const at::Tensor encoded =
      vae_encoder_(at::cat(tokens), vae_encoder_pos_enc_.transpose(0, 1), ignored_keys);

  const at::Tensor distribution = vae_encoder_latent_output_proj_(encoded[0]);
  output.latent_mean = distribution.slice(1, 0, config_.latent_dim);
  output.latent_log_variance = distribution.slice(1, config_.latent_dim);
  return output.latent_mean +
         (output.latent_log_variance / 2).exp() * at::randn_like(output.latent_mean);
}

void ACTImpl::AppendCameraTokens(const Batch& batch,
                                 std::vector<at::Tensor>& tokens,
                                 std::vector<at::Tensor>& positions) {
  for (size_t first = 0; first < features_.cameras.size();) {
    std::vector<at::Tensor> frames;
    for (size_t i = first; i < features_.cameras.size(); ++i) {
      const at::Tensor& camera = Need(batch, features_.cameras[i]);
      if (!frames.empty() && camera.sizes() != frames[0].sizes()) {
        break;
      }
      frames.push_back(camera);
    }
    const at::Tensor features = encoder_img_feat_input_proj_(backbone_(StackFrames(frames)));
    const at::Tensor codes =
        pixel_codes_.For(features.size(2), features.size(3), features.options());
    for (const at::Tensor& features_BDHW : features.chunk(static_cast<int64_t>(frames.size()))) {
      tokens.push_back(features_BDHW.flatten(2).permute({2, 0, 1}));
      positions.push_back(codes);
    }
    first += frames.size();
  }
}

}  // namespace lr::worker
