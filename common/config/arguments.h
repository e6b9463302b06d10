#pragma once
/// (pure) `--a.b.c=value` and `--a.b.c value` into keys and texts. No abbreviations, no positional
/// arguments, no bare switches but --help and -h.

#include <string>
#include <vector>

#include "common/base/status.h"

namespace lr::config {

/// One `--key=text`. In a list, the last of several with one key counts.
struct Argument {
  std::string key;
  std::string text;
};

/// In the order given; `--help` and `-h` come as the key "help" without text.
Result<std::vector<Argument>> SplitArguments(const std::vector<std::string>& args);

/// The text of the last argument with that key, or null.
const std::string* LastOf(const std::vector<Argument>& arguments, const std::string& key);

}  // namespace lr::config
