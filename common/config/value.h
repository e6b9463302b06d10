#pragma once
/// (pure) Conversion between the typed value of a configuration field, its JSON form and the text
/// of a command line (dataset_and_training_loop.md H.7). One rule for every field; errors say what
/// was expected and what came.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/io/json.h"

namespace lr::config {

/// A value as it arrives: from a file it is JSON; from the command line it is text, of which string
/// fields keep every character.
struct Value {
  Json json;
  std::optional<std::string> text;

  /// Tries JSON, then null, ~ and true/false in any capitalisation, then YAML's flow form for lists
  /// and maps, else text.
  static Result<Value> FromText(const std::string& text);
};

/// "true", "1e-05", "[\"a\"]": how a value is shown in help and messages.
std::string ShowJson(const Json& json);

/// ASCII letters compared without case.
bool EqualIgnoringCase(std::string_view a, std::string_view b);

/// The spelling of each enumerator; specialise for every enum that is a field:
/// static constexpr std::array kNames = {std::pair<Enum, std::string_view>{Enum::kA, "a"}};
template <typename Enum>
struct EnumNames;

/// How one C++ type is written, read and called. Specialise for further types.
template <typename T>
struct Convert {
  static_assert(std::is_enum_v<T>, "no conversion for this field type");

  static std::string TypeName() {
    std::string names;
    for (const auto& [value, name] : EnumNames<T>::kNames) {
      if (ToJson(value) == std::string(name)) {  // not a further spelling
        names += names.empty() ? "" : "|";
        names += name;
      }
    }
    return names;
  }

  static Json ToJson(T value) {
    for (const auto& [one, name] : EnumNames<T>::kNames) {
      if (one == value) {
        return std::string(name);
      }
    }
    return nullptr;
  }

  static Status Read(const Value& value, T& out) {
    const std::string given = value.json.is_string() ? value.json.get<std::string>()
                              : value.text           ? *value.text
                                                     : ShowJson(value.json);
    for (const auto& [one, name] : EnumNames<T>::kNames) {
      if (EqualIgnoringCase(given, name)) {  // Python's member names are the words in upper case
        out = one;
        return {};
      }
    }
    return InvalidArgument("expected one of {}, not {}", TypeName(), given);
  }
};

template <>
struct Convert<bool> {
  static std::string TypeName() { return "true|false"; }

  static Json ToJson(bool value) { return value; }

  static Status Read(const Value& value, bool& out);
};

template <>
struct Convert<int64_t> {
  static std::string TypeName() { return "int"; }

  static Json ToJson(int64_t value) { return value; }

  static Status Read(const Value& value, int64_t& out);
};

template <>
struct Convert<double> {
  static std::string TypeName() { return "float"; }

  static Json ToJson(double value) { return value; }

  static Status Read(const Value& value, double& out);
};

template <>
struct Convert<std::string> {
  static std::string TypeName() { return "text"; }

  static Json ToJson(const std::string& value) { return value; }

  static Status Read(const Value& value, std::string& out);
};

/// Anything; checked by whoever uses it.
template <>
struct Convert<Json> {
  static std::string TypeName() { return "json"; }

  static Json ToJson(const Json& value) { return value; }

  static Status Read(const Value& value, Json& out) {
    out = value.json;
    return {};
  }
};

template <typename T>
struct Convert<std::optional<T>> {
  static std::string TypeName() { return Convert<T>::TypeName() + "|null"; }

  static Json ToJson(const std::optional<T>& value) {
    return value ? Convert<T>::ToJson(*value) : Json(nullptr);
  }

  static Status Read(const Value& value, std::optional<T>& out) {
    if (value.json.is_null()) {
      out.reset();
      return {};
    }
    T inner{};
    LR_TRY(Convert<T>::Read(value, inner));
    out = std::move(inner);
    return {};
  }
};

template <typename T>
struct Convert<std::vector<T>> {
  static std::string TypeName() { return "list of " + Convert<T>::TypeName(); }

  static Json ToJson(const std::vector<T>& values) {
    Json json = Json::array();
    for (const T& value : values) {
      json.push_back(Convert<T>::ToJson(value));
    }
    return json;
  }

  static Status Read(const Value& value, std::vector<T>& out) {
    if (!value.json.is_array()) {
      const char* example = std::is_same_v<T, std::string> ? "[\"a\", \"b\"]" : "[1, 2]";
      return InvalidArgument("expected a list like {}, not {}", example, ShowJson(value.json));
    }
    std::vector<T> read;
    for (const Json& item : value.json) {
      T one{};
      LR_TRY(Convert<T>::Read({item, std::nullopt}, one).WithContext("item {}", read.size()));
      read.push_back(std::move(one));
    }
    out = std::move(read);
    return {};
  }
};

template <typename T, size_t N>
struct Convert<std::array<T, N>> {
  static std::string TypeName() { return fmt::format("list of {} {}", N, Convert<T>::TypeName()); }

  static Json ToJson(const std::array<T, N>& values) {
    return Convert<std::vector<T>>::ToJson({values.begin(), values.end()});
  }

  static Status Read(const Value& value, std::array<T, N>& out) {
    std::vector<T> read;
    LR_TRY(Convert<std::vector<T>>::Read(value, read));
    if (read.size() != N) {
      return InvalidArgument("expected {} values, not {}", N, read.size());
    }
    std::copy(read.begin(), read.end(), out.begin());
    return {};
  }
};

template <typename T>
struct Convert<std::map<std::string, T>> {
  static std::string TypeName() { return "map to " + Convert<T>::TypeName(); }

  static Json ToJson(const std::map<std::string, T>& values) {
    Json json = Json::object();
    for (const auto& [name, value] : values) {
      json[name] = Convert<T>::ToJson(value);
    }
    return json;
  }

  static Status Read(const Value& value, std::map<std::string, T>& out) {
    if (!value.json.is_object()) {
      return InvalidArgument("expected a map, not {}", ShowJson(value.json));
    }
    std::map<std::string, T> read;
    for (const auto& [name, item] : value.json.items()) {
      LR_TRY(Convert<T>::Read({item, std::nullopt}, read[name]).WithContext("'{}'", name));
    }
    out = std::move(read);
    return {};
  }
};

}  // namespace lr::config
