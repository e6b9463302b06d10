#include "common/config/arguments.h"

namespace lr::config {

Result<std::vector<Argument>> SplitArguments(const std::vector<std::string>& args) {
  std::vector<Argument> split;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "-h" || word == "--help") {
      split.push_back({"help", ""});
      continue;
    }
    if (!word.starts_with("--") || word.size() == 2) {
      return InvalidArgument("unexpected argument '{}': flags look like --batch_size=8", word);
    }
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      split.push_back({word.substr(2, equals - 2), word.substr(equals + 1)});
    } else if (i + 1 < args.size() && !args[i + 1].starts_with("--")) {
      split.push_back({word.substr(2), args[++i]});
    } else {
      return InvalidArgument("{} needs a value, for example {}=true", word, word);
    }
    // draccus reads the value from a file here; a setting that silently became text would be worse.
    if (split.back().text.starts_with("include ")) {
      return InvalidArgument("--{}={}: includes are not supported; put all settings into one file",
                             split.back().key,
                             split.back().text);
    }
  }
  return split;
}

const std::string* LastOf(const std::vector<Argument>& arguments, const std::string& key) {
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) {
    if (it->key == key) {
      return &it->text;
    }
  }
  return nullptr;
}

}  // namespace lr::config
