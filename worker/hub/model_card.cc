// (pure) See the header.
#include "worker/hub/model_card.h"

#include <set>

#include "worker/hub/publish_command.h"

namespace lr::worker {
namespace {

std::string TextOf(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string()
             ? object[key].get<std::string>()
             : "";
}

/// JSON's quotes are valid YAML.
std::string Scalar(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string Line(const char* key, const std::string& value) {
  return value.empty() ? "" : fmt::format("{}: {}\n", key, Scalar(value));
}

std::string Tags(const Json& policy, const std::string& type) {
  std::set<std::string> tags = {"lerobot", "robotics"};
  if (!type.empty()) {
    tags.insert(type);
  }
  if (policy.is_object() && policy.contains("tags") && policy["tags"].is_array()) {
    for (const Json& tag : policy["tags"]) {
      if (tag.is_string()) {
        tags.insert(tag.get<std::string>());
      }
    }
  }
  std::string lines = "tags:\n";
  for (const std::string& tag : tags) {
    lines += fmt::format("- {}\n", Scalar(tag));
  }
  return lines;
}

}  // namespace

std::string ModelCard(const Json& policy, const Json& train) {
  const std::string type = TextOf(policy, "type");
  const std::string dataset =
      train.is_object() && train.contains("dataset") ? TextOf(train["dataset"], "repo_id") : "";
  std::string card = "---\nlibrary_name: lerobot\npipeline_tag: robotics\n";
  card += Line("license", TextOf(policy, "license"));
  const std::string base = TextOf(policy, "pretrained_path");
  if (base.find('/') != std::string::npos && CheckRepositoryName(base).ok()) {  // not a local path
    card += Line("base_model", base);
  }
  card += Line("datasets", dataset);
  card += Line("model_name", type);
  card += Tags(policy, type) + "---\n\n";
  card += fmt::format("# {} policy\n\n", type.empty() ? "A" : type);
  if (!dataset.empty()) {
    card += fmt::format("Trained on `{}`.\n\n", dataset);
  }
  card += "Start a training from it with `--policy.path=<this repository>`.\n";
  return card;
}

}  // namespace lr::worker
