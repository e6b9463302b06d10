#include "common/config/value.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "common/base/text.h"
#include "common/io/yaml_node.h"

namespace lr::config {

namespace {

std::string Lower(std::string text) {
  std::transform(
      text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// What Python's float() accepts, without underscores.
std::optional<double> ParseFloat(std::string_view text) {
  text = Trim(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const std::string word = Lower(std::string(text));
  double value = 0.0;
  if (word == "inf" || word == "infinity") {
    value = INFINITY;
  } else if (word == "nan") {
    value = NAN;
  } else {
    if (text.empty() ||
        (std::isdigit(static_cast<unsigned char>(text[0])) == 0 && text[0] != '.')) {
      return std::nullopt;
    }
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

}  // namespace

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string ShowJson(const Json& json) {
  return DumpPythonJson(json, -1);
}

Result<Value> Value::FromText(const std::string& text) {
  Value value;
  value.text = text;
  const std::string_view trimmed = Trim(text);
  if (Result<Json> json = ParseJson(trimmed); json.ok()) {
    value.json = std::move(json).value();
    return value;
  }
  const std::string word = Lower(std::string(trimmed));
  if (word == "null" || word == "~") {
    value.json = nullptr;
  } else if (word == "true" || word == "false") {
    value.json = word == "true";
  } else if (trimmed.starts_with('[') || trimmed.starts_with('{')) {
    LR_ASSIGN(value.json, ParseYaml(trimmed).WithContext("'{}' is no list or map", trimmed));
  } else {
    value.json = text;
  }
  return value;
}

Status Convert<bool>::Read(const Value& value, bool& out) {
  if (value.json.is_boolean()) {
    out = value.json.get<bool>();
    return {};
  }
  if (value.json.is_string()) {
    const std::string word = Lower(value.json.get<std::string>());
    if (word == "true" || word == "false") {
      out = word == "true";
      return {};
    }
  }
  return InvalidArgument("expected true or false, not {}", ShowJson(value.json));
}

Status Convert<int64_t>::Read(const Value& value, int64_t& out) {
  const bool too_large =
      value.json.is_number_unsigned() && value.json.get<uint64_t>() > uint64_t{INT64_MAX};
  if (value.json.is_number_integer() && !too_large) {
    out = value.json.get<int64_t>();
    return {};
  }
  if (value.json.is_string()) {
    if (const std::optional<int64_t> number = ParseInt(value.json.get<std::string>())) {
      out = *number;
      return {};
    }
  }
  return InvalidArgument("expected a whole number, not {}",
                         value.text ? *value.text : ShowJson(value.json));
}

Status Convert<double>::Read(const Value& value, double& out) {
  if (value.json.is_number()) {
    out = value.json.get<double>();
    return {};
  }
  if (value.json.is_string()) {
    if (const std::optional<double> number = ParseFloat(value.json.get<std::string>())) {
      out = *number;
      return {};
    }
  }
  return InvalidArgument("expected a number, not {}", ShowJson(value.json));
}

Status Convert<std::string>::Read(const Value& value, std::string& out) {
  if (value.json.is_string()) {
    out = value.json.get<std::string>();
    return {};
  }
  if (value.text) {  // keeps its spelling: --job_name=007 stays 007
    out = *value.text;
    return {};
  }
  if (value.json.is_number() || value.json.is_boolean()) {
    out = ShowJson(value.json);
    return {};
  }
  return InvalidArgument("expected text, not {}", ShowJson(value.json));
}

}  // namespace lr::config
