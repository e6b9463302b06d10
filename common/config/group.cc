#include "common/config/group.h"

#include "common/base/check.h"

namespace lr::config {

Group::Field& Group::AddField(Field field) {
  LR_CHECK(Find(field.key) == nullptr, "the field '{}' is declared twice", field.key);
  Entry entry;
  entry.key = field.key;
  entry.field = std::make_unique<Field>(std::move(field));
  entries_.push_back(std::move(entry));
  return *entries_.back().field;
}

Group& Group::Sub(std::string key, std::string help) {
  LR_CHECK(Find(key) == nullptr, "the group '{}' is declared twice", key);
  Entry entry;
  entry.key = std::move(key);
  entry.group = std::make_unique<Group>();
  entry.group->help_ = std::move(help);
  entries_.push_back(std::move(entry));
  return *entries_.back().group;
}

Group::Entry* Group::Find(const std::string& key) {
  for (Entry& entry : entries_) {
    if (entry.key == key) {
      return &entry;
    }
  }
  return nullptr;
}

/// Creates an optional group's object when it is absent, and binds its fields anew.
void Group::Bind() {
  if (build_) {
    entries_.clear();
    build_(*this);
  }
}

Status Group::Set(const std::string& path, const Value& value) {
  const size_t dot = path.find('.');
  Entry* entry = Find(path.substr(0, dot));
  if (entry == nullptr || (dot != std::string::npos && entry->field)) {
    return NotFound("{}", path);
  }
  if (entry->field) {
    return entry->field->read(value);
  }
  if (dot == std::string::npos) {
    if (!value.json.is_object() && !(value.json.is_null() && entry->group->clear_)) {
      return InvalidArgument("is a group: give its fields as --{}.FIELD=VALUE", path);
    }
    return ReadEntry(*entry, value.json, UnknownKeys::kError, nullptr, path);
  }
  const bool was_absent = entry->group->present_ && !entry->group->present_();
  entry->group->Bind();
  const Status set = entry->group->Set(path.substr(dot + 1), value);
  if (!set.ok() && was_absent) {
    entry->group->clear_();
  }
  return set;
}

Status Group::ReadEntry(
    Entry& entry, const Json& value, UnknownKeys policy, Json* unknown, const std::string& path) {
  if (entry.field) {
    return entry.field->read({value, std::nullopt}).WithContext("{}", path);
  }
  if (value.is_null() && entry.group->clear_) {
    entry.group->clear_();
    return {};
  }
  if (!value.is_object()) {
    return InvalidArgument("{}: expected a map, not {}", path, ShowJson(value));
  }
  entry.group->Bind();
  if (Entry* type = entry.group->Find("type");
      type != nullptr && entry.group->build_ && value.contains("type")) {
    LR_TRY(type->field->read({value["type"], std::nullopt}).WithContext("{}.type", path));
    entry.group->Bind();  // the type decides which fields follow
  }
  Json nested = Json::object();
  LR_TRY(entry.group->ReadJson(value, policy, &nested, path + "."));
  if (unknown != nullptr && !nested.empty()) {
    (*unknown)[entry.key] = std::move(nested);
  }
  return {};
}

Status Group::ReadJson(const Json& object,
                       UnknownKeys policy,
                       Json* unknown,
                       const std::string& prefix) {
  std::string strangers;
  for (const auto& [key, value] : object.items()) {
    if (Entry* entry = Find(key)) {
      LR_TRY(ReadEntry(*entry, value, policy, unknown, prefix + key));
    } else if (policy == UnknownKeys::kKeep && unknown != nullptr) {
      (*unknown)[key] = value;
    } else {
      strangers += (strangers.empty() ? "" : ", ") + prefix + key;
    }
  }
  return strangers.empty() ? Status() : InvalidArgument("unknown keys: {}", strangers);
}

Json Group::WriteJson(Group* defaults) {
  if (present_ && !present_()) {
    return nullptr;
  }
  Bind();
  Json json = Json::object();
  for (Entry& entry : entries_) {
    Entry* fallback = defaults == nullptr ? nullptr : defaults->Find(entry.key);
    if (entry.field) {
      Json value = entry.field->write();
      if (!(entry.field->newer && fallback != nullptr && fallback->field->write() == value)) {
        json[entry.key] = std::move(value);
      }
      continue;
    }
    Group* nested = fallback == nullptr ? nullptr : fallback->group.get();
    if (entry.group->newer_ && nested != nullptr &&
        nested->WriteJson() == entry.group->WriteJson()) {
      continue;
    }
    json[entry.key] = entry.group->WriteJson(nested);
  }
  return json;
}

void Group::CollectHelp(const std::string& prefix, std::vector<FieldHelp>& help) {
  for (Entry& entry : entries_) {
    const std::string path = prefix + entry.key;
    if (entry.field) {
      help.push_back({path, entry.field->type, ShowJson(entry.field->write()), entry.field->help});
      continue;
    }
    help.push_back({path, "", "", entry.group->help_, true});
    if (entry.group->sample_ && !entry.group->present_()) {
      Group sample;
      const std::shared_ptr<void> owner = entry.group->sample_(sample);
      sample.CollectHelp(path + ".", help);
    } else {
      entry.group->Bind();
      entry.group->CollectHelp(path + ".", help);
    }
  }
}

std::vector<std::string> Group::Paths() {
  std::vector<FieldHelp> help;
  CollectHelp("", help);
  std::vector<std::string> paths;
  paths.reserve(help.size());
  for (FieldHelp& field : help) {
    paths.push_back(std::move(field.flag));
  }
  return paths;
}

}  // namespace lr::config
