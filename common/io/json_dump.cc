// Writing JSON as Python's json.dump does: separators, indentation, and floats in repr() form.
#include <cmath>

#include "common/io/json.h"

namespace lr {
namespace {

class Dumper {
 public:
  Dumper(int indent, bool ascii) : indent_(indent), ascii_(ascii) {}

  std::string Take() { return std::move(out_); }

  void Write(const Json& json, int level) {
    if (json.is_object()) {
      WriteObject(json, level);
    } else if (json.is_array()) {
      WriteArray(json, level);
    } else if (json.is_number_float()) {
      out_ += PythonFloat(json.get<double>());
    } else {
      out_ += Scalar(json);
    }
  }

 private:
  std::string Scalar(const Json& json) const {
    return json.dump(-1, ' ', ascii_, Json::error_handler_t::replace);
  }

  void Separate(bool first, int level) {
    if (indent_ < 0) {
      out_ += first ? "" : ", ";
      return;
    }
    out_ += first ? "\n" : ",\n";
    out_.append(static_cast<size_t>(indent_ * level), ' ');
  }

  void End(char bracket, int level) {
    if (indent_ >= 0) {
      out_ += '\n';
      out_.append(static_cast<size_t>(indent_ * level), ' ');
    }
    out_ += bracket;
  }

  void WriteObject(const Json& json, int level) {
    if (json.empty()) {
      out_ += "{}";
      return;
    }
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : json.items()) {
      Separate(first, level + 1);
      out_ += Scalar(Json(key)) + ": ";
      Write(value, level + 1);
      first = false;
    }
    End('}', level);
  }

  void WriteArray(const Json& json, int level) {
    if (json.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    bool first = true;
    for (const Json& value : json) {
      Separate(first, level + 1);
      Write(value, level + 1);
      first = false;
    }
    End(']', level);
  }

  int indent_;
  bool ascii_;
  std::string out_;
};

}  // namespace

std::string PythonFloat(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string DumpPythonJson(const Json& json, int indent, bool ascii_escapes) {
  Dumper dumper(indent, ascii_escapes);
  dumper.Write(json, 0);
  return dumper.Take();
}

}  // namespace lr
