#pragma once
/// YAML in, as Json: the border at which yaml-cpp's exceptions become a Status.
///
/// Plain scalars: null and ~, true and false (any capitalisation), decimal integers, floats with a
/// point, .inf and .nan; everything else stays text, so `007`, `1e-5`, `yes` and `12:30` keep their
/// spelling and the typed field decides. One document only; anchors are expanded within the limits.
/// Any thread.

#include "common/io/json.h"

namespace lr {

Result<Json> ParseYaml(std::string_view text, const ReadLimits& limits = {});

Result<Json> ReadYamlFile(const std::string& path, const ReadLimits& limits = {});

}  // namespace lr
