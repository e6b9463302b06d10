#pragma once
/// Visits every tensor inside a value, so that the engine can cast inputs and hook outputs of any
/// unit: tensors, the standard containers of them, and user structs that overload VisitTensors in
/// their own namespace. A type without an overload does not compile: no tensor is missed silently.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lr::worker {

template <typename Visitor>
void VisitTensors(at::Tensor& tensor, Visitor&& visit) {
  visit(tensor);
}

/// Plain values hold no tensor.
template <typename Value, typename Visitor>

requires(std::is_arithmetic_v<Value> ||
         std::is_enum_v<Value>) void VisitTensors(Value& /*value*/, Visitor&& /*visit*/) {}

template <typename Visitor>
void VisitTensors(std::string& /*text*/, Visitor&& /*visit*/) {}

template <typename Value, typename Visitor>
void VisitTensors(std::optional<Value>& value, Visitor&& visit) {
  if (value) {
    VisitTensors(*value, visit);
  }
}

template <typename First, typename Second, typename Visitor>
void VisitTensors(std::pair<First, Second>& pair, Visitor&& visit) {
  VisitTensors(pair.first, visit);
  VisitTensors(pair.second, visit);
}

template <typename... Values, typename Visitor>
void VisitTensors(std::tuple<Values...>& tuple, Visitor&& visit) {
  std::apply([&](auto&... values) { (VisitTensors(values, visit), ...); }, tuple);
}

template <typename Value, size_t N, typename Visitor>
void VisitTensors(std::array<Value, N>& values, Visitor&& visit) {
  for (Value& value : values) {
    VisitTensors(value, visit);
  }
}

template <typename Value, typename Visitor>
void VisitTensors(std::vector<Value>& values, Visitor&& visit) {
  for (Value& value : values) {
    VisitTensors(value, visit);
  }
}

template <typename Key, typename Value, typename Visitor>
void VisitTensors(std::map<Key, Value>& values, Visitor&& visit) {
  for (auto& [key, value] : values) {
    VisitTensors(value, visit);
  }
}

/// torch::data::Example, known by its members: its header is not for everybody.
template <typename Value, typename Visitor>

requires requires {
  typename Value::DataType;
  typename Value::TargetType;
}

void VisitTensors(Value& example, Visitor&& visit) {
  VisitTensors(example.data, visit);
  if constexpr (!std::is_void_v<typename Value::TargetType>) {
    VisitTensors(example.target, visit);
  }
}

/// Pointers to the tensors of `value`, undefined ones left out; valid while it stays where it is.
template <typename Value>
std::vector<at::Tensor*> TensorsIn(Value& value) {
  std::vector<at::Tensor*> tensors;
  VisitTensors(value, [&](at::Tensor& tensor) {
    if (tensor.defined()) {
      tensors.push_back(&tensor);
    }
  });
  return tensors;
}

}  // namespace lr::worker
