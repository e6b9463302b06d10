#pragma once
/// JSON in and out: bounded reading of text from outside, and writing as Python's json.dump does.
///
/// Pure except ReadJsonFile; any thread. Failures name the file, line and column.

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/status.h"

namespace lr {

/// Objects keep the order of their keys.
using Json = nlohmann::ordered_json;

struct ReadLimits {
  size_t max_bytes = size_t{64} << 20;
  size_t max_depth = 64;
};

/// Strict JSON plus the bare NaN, Infinity and -Infinity that Python writes. A repeated key is an
/// error.
Result<Json> ParseJson(std::string_view text, const ReadLimits& limits = {});

Result<Json> ReadJsonFile(const std::string& path, const ReadLimits& limits = {});

/// Byte for byte what Python's json.dump(…, indent=indent, ensure_ascii=ascii_escapes) writes,
/// without a final newline; a negative indent gives Python's one-line form. Text that is not UTF-8
/// is written with U+FFFD in the bad places.
std::string DumpPythonJson(const Json& json, int indent, bool ascii_escapes = false);

/// repr() of a Python float: shortest digits that read back, always with '.' or an exponent: 1e-05,
/// 0.0001, 10.0.
std::string PythonFloat(double value);

}  // namespace lr
