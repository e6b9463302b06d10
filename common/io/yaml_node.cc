#include "common/io/yaml_node.h"

#include <limits>
#include <regex>

#include <yaml-cpp/yaml.h>

#include "common/base/text.h"
#include "common/io/atomic_file.h"

namespace lr {
namespace {

// Aliases are expanded: a short text may stand for a huge document.
constexpr size_t kMaxNodes = 1'000'000;

Json PlainScalar(const std::string& text) {
  static const std::regex kFloat(R"([-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)");
  std::string lower = text;
  for (char& c : lower) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (lower.empty() || lower == "null" || lower == "~") {
    return nullptr;
  }
  if (lower == "true" || lower == "false") {
    return lower == "true";
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (lower == ".inf" || lower == "+.inf" || lower == "-.inf") {
    return lower[0] == '-' ? -kInfinity : kInfinity;
  }
  if (lower == ".nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool leading_zero = text.size() > 1 && text[0] == '0';
  if (const std::optional<int64_t> number = ParseInt(text); number && !leading_zero) {
    return *number;
  }
  if (text.size() < 64 && std::regex_match(text, kFloat)) {
    return std::stod(text);
  }
  return text;
}

class Converter {
 public:
  explicit Converter(const ReadLimits& limits) : limits_(limits) {}

  Result<Json> Run(const YAML::Node& node, size_t depth) {
    if (depth > limits_.max_depth) {
      return InvalidArgument("nested deeper than {} levels", limits_.max_depth);
    }
    if (++nodes_ > kMaxNodes) {
      return OutOfRange("more than {} values", kMaxNodes);
    }
    if (node.IsScalar()) {
      const bool quoted = node.Tag() == "!";
      return quoted ? Json(node.Scalar()) : PlainScalar(node.Scalar());
    }
    if (node.IsSequence()) {
      Json list = Json::array();
      for (const YAML::Node& item : node) {
        LR_ASSIGN(Json value, Run(item, depth + 1));
        list.push_back(std::move(value));
      }
      return list;
    }
    return node.IsMap() ? Map(node, depth) : Result<Json>(Json(nullptr));
  }

 private:
  Result<Json> Map(const YAML::Node& node, size_t depth) {
    Json map = Json::object();
    for (const auto& item : node) {
      const int line = item.first.Mark().line + 1;
      if (!item.first.IsScalar()) {
        return InvalidArgument("line {}: a key must be text", line);
      }
      const std::string& key = item.first.Scalar();
      if (map.contains(key)) {
        return InvalidArgument("line {}: the key \"{}\" is repeated", line, key);
      }
      LR_ASSIGN(Json value, Run(item.second, depth + 1));
      map[key] = std::move(value);
    }
    return map;
  }

  ReadLimits limits_;
  size_t nodes_ = 0;
};

}  // namespace

Result<Json> ParseYaml(std::string_view text, const ReadLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return OutOfRange("YAML of {} bytes (limit {})", text.size(), limits.max_bytes);
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      return InvalidArgument("{} documents instead of one", documents.size());
    }
    return documents.empty() ? Result<Json>(Json(nullptr)) : Converter(limits).Run(documents[0], 0);
  } catch (const YAML::Exception& error) {
    return InvalidArgument(
        "line {} column {}: {}", error.mark.line + 1, error.mark.column + 1, error.msg);
  } catch (const std::exception& error) {
    return InvalidArgument("not YAML: {}", error.what());
  }
}

Result<Json> ReadYamlFile(const std::string& path, const ReadLimits& limits) {
  LR_ASSIGN(const std::string text, ReadFile(path, limits.max_bytes));
  return ParseYaml(text, limits).WithContext("'{}'", path);
}

}  // namespace lr
