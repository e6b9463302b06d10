#pragma once
/// The optimizers of the product: adam, adamw, xvla-adamw, sgd, on ATen's fused kernels.
///
/// One class with parameter groups and per-parameter state, so that checkpoints (state/<i>/exp_avg
/// …) and the sharded engine can read and replace the state without knowing the algorithm.
/// Parameters without a gradient are skipped and have no state, as in torch. Thread: step thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/base/status.h"
#include "worker/optim/optimizer_config.h"

namespace lr::worker {

/// Hyper-parameters of one group; what the group does not use keeps its default.
struct OptimizerGroup {
  std::vector<std::string> names;  ///< full parameter names, in the order of `params`
  std::vector<at::Tensor> params;
  double lr = 0.0;  ///< taken from the configuration unless `lr_is_own`
  bool lr_is_own =
      false;  ///< the group stated its own lr (it then comes first in optimizer_param_groups.json)
  std::optional<double> initial_lr;  ///< set when a schedule exists
  OptimizerConfig options;  ///< set by Create from the configuration; `options.lr` is not used
  std::string name = {};    ///< xvla-adamw: vlm, soft_prompts or other
};

class Optimizer {
 public:
  /// State tensors of one parameter by name: `step` (float32, 0-d), `exp_avg`, `exp_avg_sq`, or
  /// `momentum_buffer`.
  using State = std::map<std::string, at::Tensor>;

  /// Every group takes `config` as its options and, unless it states its own, its lr. xvla-adamw
  /// sorts all parameters anew into the groups vlm, soft_prompts and other, by name. Fails on an
  /// unknown type (names it and lists what exists) and on `multi_adam` (one optimizer per module:
  /// not here).
  static Result<std::unique_ptr<Optimizer>> Create(const OptimizerConfig& config,
                                                   std::vector<OptimizerGroup> groups);

  virtual ~Optimizer() = default;

  /// One update from the parameters' gradients.
  virtual void Step() = 0;

  /// Drops all gradients (set to none).
  void ZeroGrad();

  std::vector<OptimizerGroup>& groups() { return groups_; }

  const std::vector<OptimizerGroup>& groups() const { return groups_; }

  /// Per parameter, numbered through all groups in order; a parameter that was never updated has no
  /// entry.
  std::map<int64_t, State>& state() { return state_; }

  const std::map<int64_t, State>& state() const { return state_; }

 protected:
  explicit Optimizer(std::vector<OptimizerGroup> groups) : groups_(std::move(groups)) {}

  std::vector<OptimizerGroup> groups_;
  std::map<int64_t, State> state_;
};

/// How a norm is taken over ranks that hold different parts of the gradients.
struct NormOverRanks {
  std::function<void(at::Tensor& powers)> sum;        ///< collective: over the ranks, in place
  std::set<const at::TensorImpl*> counted_elsewhere;  ///< whole on several ranks: not ours to count
  std::function<void(at::Tensor& largest)> max = {};  ///< as `sum`, for the infinity norm
};

/// Norm over all gradients (0 when there is none), as float32 0-d; with `max_norm` > 0 the
/// gradients are scaled by min(1, max_norm / (norm + 1e-6)). `ranks` null: the gradients are whole
/// here. `norm_type`: p, above 0; infinity: the largest element. Source:
/// torch.nn.utils.clip_grad_norm_.
at::Tensor ClipGradNorm(const std::vector<at::Tensor>& params,
                        double max_norm,
                        const NormOverRanks* ranks = nullptr,
                        double norm_type = 2.0);

}  // namespace lr::worker
