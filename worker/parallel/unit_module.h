#pragma once
/// The base of every block that can form a sharding unit. LibTorch's modules have no forward hooks:
/// such a block writes its forward as
///
///   at::Tensor forward(const at::Tensor& x) {
///     return CallAsUnit([this](const at::Tensor& x) { return norm(x + linear(x)); }, x);
///   }
///
/// Without an engine the lambda is simply called. With one, the engine makes the parameters present
/// before it and may free them after it. Step thread.

#include <tuple>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "worker/parallel/tensor_visitor.h"

namespace lr::worker {

class UnitModule;

/// What an engine does around a unit's forward; it may replace the tensors.
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  virtual void BeforeForward(const UnitModule& unit, const std::vector<at::Tensor*>& inputs) = 0;
  virtual void AfterForward(const UnitModule& unit, const std::vector<at::Tensor*>& outputs) = 0;
};

class UnitModule : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;

  /// Set by the engine when the block became a unit; null: a plain call.
  void Observe(UnitObserver* observer) { observer_ = observer; }

 protected:
  template <typename Body, typename... Args>
  auto CallAsUnit(Body&& body, Args... args) {
    if (observer_ == nullptr) {
      return body(args...);
    }
    std::tuple<Args&...> inputs(args...);
    observer_->BeforeForward(*this, TensorsIn(inputs));
    auto output = body(args...);
    observer_->AfterForward(*this, TensorsIn(output));
    return output;
  }

 private:
  UnitObserver* observer_ = nullptr;
};

}  // namespace lr::worker
