#pragma once
/// (pure) README.md of a published policy: the front matter by which the Hub finds it, and how to
/// load it. Made from config.json and train_config.json; cannot fail, keys that are not there are
/// left out.

#include <string>

#include "common/io/json.h"

namespace lr::worker {

/// `train`: null when not known.
std::string ModelCard(const Json& policy, const Json& train);

}  // namespace lr::worker
