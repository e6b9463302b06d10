#include "common/io/json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "common/io/atomic_file.h"

namespace lr {
namespace {

/// Stands for a bare NaN, Infinity or -Infinity while the strict parser runs; cannot occur in a
/// real string, which never holds an unescaped control character.
constexpr std::string_view kNonFiniteMark = "\\u0000lr:";

struct Token {
  std::string_view spelling;
  double value;
};

constexpr Token kNonFinite[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"-Infinity", -std::numeric_limits<double>::infinity()},
    {"Infinity", std::numeric_limits<double>::infinity()},
};

/// The text with bare non-finite numbers turned into marked strings; the rest byte for byte.
std::string MarkNonFinite(std::string_view text) {
  std::string marked;
  marked.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      marked += text[i];
      if (text[i] == '\\' && i + 1 < text.size()) {
        marked += text[++i];
      } else if (text[i] == '"') {
        in_string = false;
      }
      continue;
    }
    const Token* found = nullptr;
    for (const Token& token : kNonFinite) {
      if (text.substr(i).starts_with(token.spelling)) {
        found = &token;
        break;
      }
    }
    if (found != nullptr) {
      marked += '"';
      marked += kNonFiniteMark;
      marked += found->spelling;
      marked += '"';
      i += found->spelling.size() - 1;
      continue;
    }
    in_string = text[i] == '"';
    marked += text[i];
  }
  return marked;
}

std::string Place(std::string_view text, size_t offset) {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < std::min(offset, text.size()); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n' ? 1 : 0;
  }
  return fmt::format("line {} column {}", line, column);
}

/// Builds the document while watching depth and repeated keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const ReadLimits& limits) : limits_(limits) {}

  bool null() override { return Put(nullptr); }

  bool boolean(bool value) override { return Put(value); }

  bool number_integer(number_integer_t value) override { return Put(value); }

  bool number_unsigned(number_unsigned_t value) override { return Put(value); }

  bool number_float(number_float_t value, const string_t& /*text*/) override { return Put(value); }

  bool string(string_t& value) override {
    constexpr std::string_view kMark("\0lr:", 4);
    if (std::string_view(value).starts_with(kMark)) {
      for (const Token& token : kNonFinite) {
        if (std::string_view(value).substr(kMark.size()) == token.spelling) {
          return Put(token.value);
        }
      }
    }
    return Put(std::move(value));
  }

  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*elements*/) override { return Open(Json::object()); }

  bool key(string_t& name) override {
    if (stack_.back()->contains(name)) {
      problem = fmt::format("the key \"{}\" is repeated", name);
      return false;
    }
    key_ = std::move(name);
    return true;
  }

  bool end_object() override { return Close(); }

  bool start_array(std::size_t /*elements*/) override { return Open(Json::array()); }

  bool end_array() override { return Close(); }

  bool parse_error(std::size_t position,
                   const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    const std::string text = error.what();
    const size_t colon = text.rfind("; ");
    problem = colon == std::string::npos ? text : text.substr(colon + 2);
    offset = position;
    return false;
  }

  Json root;
  std::string problem;
  size_t offset = 0;

 private:
  Json* Insert(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (stack_.back()->is_array()) {
      stack_.back()->push_back(std::move(value));
      return &stack_.back()->back();
    }
    return &((*stack_.back())[key_] = std::move(value));
  }

  bool Put(Json value) {
    Insert(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (stack_.size() >= limits_.max_depth) {
      problem = fmt::format("nested deeper than {} levels", limits_.max_depth);
      return false;
    }
    stack_.push_back(Insert(std::move(value)));
    return true;
  }

  bool Close() {
    stack_.pop_back();
    return true;
  }

  ReadLimits limits_;
  std::vector<Json*> stack_;
  std::string key_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, const ReadLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return OutOfRange("JSON of {} bytes (limit {})", text.size(), limits.max_bytes);
  }
  const std::string marked = MarkNonFinite(text);
  Builder builder(limits);
  if (!Json::sax_parse(marked, &builder)) {
    return InvalidArgument("{}: {}", Place(marked, builder.offset), builder.problem);
  }
  return std::move(builder.root);
}

Result<Json> ReadJsonFile(const std::string& path, const ReadLimits& limits) {
  LR_ASSIGN(const std::string text, ReadFile(path, limits.max_bytes));
  return ParseJson(text, limits).WithContext("'{}'", path);
}

}  // namespace lr
