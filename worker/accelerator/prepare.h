#pragma once
/// The templates of lr::Accelerator: which objects prepare() knows, and the verbs over any value
/// that holds tensors. Included by accelerator.h only.

#include <concepts>
#include <iostream>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "worker/accelerator/accelerator.h"

namespace lr {

namespace internal {

template <typename T>
inline constexpr bool kIsModulePointer = false;
template <typename Module>
inline constexpr bool kIsModulePointer<std::shared_ptr<Module>> =
    std::derived_from<Module, torch::nn::Module>;

/// torch::nn::ModuleHolder, known by its members.
template <typename T>
concept ModuleHolder = requires(const T& holder) {
  typename T::ContainedType;
  { holder.ptr() } -> std::convertible_to<std::shared_ptr<typename T::ContainedType>>;
};

/// torch::data::DataLoaderBase, the same way: its header is not for everybody.
template <typename T>
concept TorchLoader = requires(T& loader) {
  typename T::BatchType;
  loader.begin();
  loader.end();
  loader.join();
};

template <typename T>
concept TorchLoaderPointer = requires(T& pointer) {
  typename T::element_type;
  typename T::deleter_type;
}

&&TorchLoader<typename T::element_type>;

template <typename T, typename... Others>
inline constexpr bool kIsOneOf = (std::derived_from<T, Others> || ...);

/// An optimizer of ours arrives in a unique_ptr of it or of a derived class.
template <typename T>
concept OptimizerPointer = std::convertible_to<T&&, std::unique_ptr<worker::Optimizer>>;

}  // namespace internal

template <typename Object>
void Accelerator::PrepareIfModel(const Object& object) {
  if constexpr (internal::kIsModulePointer<Object>) {
    if (FindEngine(object.get()) == nullptr) {
      object->to(options_.device);
      if constexpr (requires { object->wrap_modules(); }) {
        DeclareUnits(object->wrap_modules());
      }
      AddEngine(object);
    }
  } else if constexpr (internal::ModuleHolder<Object>) {
    PrepareIfModel(object.ptr());
  }
}

template <typename Object>
decltype(auto) Accelerator::PrepareOne(Object&& object) {
  using Bare = std::remove_cvref_t<Object>;
  if constexpr (internal::kIsModulePointer<Bare>) {
    return PreparedModel<typename Bare::element_type>(object, FindEngine(object.get()), *this);
  } else if constexpr (internal::ModuleHolder<Bare>) {
    return PrepareOne(object.ptr());
  } else if constexpr (internal::OptimizerPointer<Bare>) {
    static_assert(!std::is_lvalue_reference_v<Object>, "move an owned optimizer into prepare()");
    return AddOptimizer(std::unique_ptr<worker::Optimizer>(std::move(object)));
  } else if constexpr (internal::kIsOneOf<Bare, torch::optim::Optimizer>) {
    static_assert(std::is_lvalue_reference_v<Object>,
                  "the optimizer outlives what prepare() makes");
    return AddOptimizer(static_cast<torch::optim::Optimizer&>(object));
  } else if constexpr (internal::kIsOneOf<Bare, torch::optim::LRScheduler, worker::LrScheduler>) {
    static_assert(std::is_lvalue_reference_v<Object>, "the schedule outlives what prepare() makes");
    return AddScheduler(object);
  } else if constexpr (internal::TorchLoader<Bare>) {
    static_assert(std::is_lvalue_reference_v<Object>, "the loader outlives what prepare() makes");
    return prepare_data_loader(object);
  } else if constexpr (internal::TorchLoaderPointer<Bare>) {
    if constexpr (std::is_lvalue_reference_v<Object>) {
      return prepare_data_loader(*object);
    } else {
      using Loader = typename Bare::element_type;
      return PreparedLoader<Loader>(std::shared_ptr<Loader>(std::move(object)), *this);
    }
  } else {
    return static_cast<Object>(std::forward<Object>(object));
  }
}

template <typename... Objects>
auto Accelerator::prepare(Objects&&... objects) {
  (PrepareIfModel(objects), ...);
  if constexpr (sizeof...(Objects) == 1) {
    return PrepareOne(std::forward<Objects>(objects)...);
  } else {
    return std::tuple<decltype(PrepareOne(std::forward<Objects>(objects)))...>{
        PrepareOne(std::forward<Objects>(objects))...};
  }
}

template <typename... Modules>
Accumulation Accelerator::accumulate(const PreparedModel<Modules>&... /*models*/) {
  static_assert(sizeof...(Modules) > 0, "accumulate(model)");
  return Accumulation(*this);
}

template <typename... Modules>
NoSync Accelerator::no_sync(const PreparedModel<Modules>&... /*models*/) {
  static_assert(sizeof...(Modules) > 0, "no_sync(model)");
  return NoSync(*this);
}

template <typename Value>
Value Accelerator::gather(Value value) {
  for (at::Tensor* tensor : worker::TensorsIn(value)) {
    *tensor = Gather(*tensor);
  }
  return value;
}

template <typename Value>
Value Accelerator::gather_for_metrics(Value value) {
  for (at::Tensor* tensor : worker::TensorsIn(value)) {
    *tensor = GatherRealRows(*tensor);
  }
  return value;
}

template <typename Value>
Value Accelerator::reduce(Value value, Reduction reduction) {
  for (at::Tensor* tensor : worker::TensorsIn(value)) {
    *tensor = Reduce(*tensor, reduction);
  }
  return value;
}

template <typename... Parts>
void Accelerator::print(const Parts&... parts) const {
  if (is_main_process()) {
    const char* separator = "";
    ((std::cout << std::exchange(separator, " ") << parts), ...);
    std::cout << std::endl;
  }
}

template <typename Module>
template <typename... Args>
auto PreparedModel<Module>::operator()(Args... args) {
  const bool sync = accelerator_->exchanges_gradients();
  std::tuple<Args&...> inputs(args...);
  engine_->BeginForward(worker::TensorsIn(inputs), sync);
  auto output = [&] {
    const worker::AutocastGuard autocast = accelerator_->autocast();
    return module_->forward(args...);
  }();
  const std::vector<at::Tensor*> outputs = worker::TensorsIn(output);
  engine_->EndForward(outputs, sync);
  accelerator_->ToFloat(outputs);
  return output;
}

template <typename Loader>
typename PreparedLoader<Loader>::Iterator PreparedLoader<Loader>::begin() {
  return {Pass(*loader_, accelerator_->deal_rule()),
          worker::LoaderScope(accelerator_->loops_),
          accelerator_->device()};
}

}  // namespace lr
