#pragma once
/// The field table: one declaration per configuration field gives its flag, file key, type, default
/// and help.
///
/// A configuration object describes itself into a Group: every Add() binds one live field. The same
/// description then reads flags and files, writes JSON in the order of declaration and prints help;
/// there is no second list. The bound object must outlive the Group and not move. One thread.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/config/value.h"

namespace lr::config {

/// What is written about a field in help.
struct FieldHelp {
  std::string flag;  ///< dotted path
  std::string type;
  std::string fallback;
  std::string text;
  bool starts_group = false;  ///< `flag` names a group, `text` describes it
};

/// What a file with keys that nobody declared means.
enum class UnknownKeys { kError, kKeep };

class Group {
 public:
  struct Field {
    std::string key;
    std::string help;
    std::string type;
    std::function<Status(const Value&)> read;
    std::function<Json()> write;
    bool newer = false;

    /// Marks a key that the reference version does not know: written only when it differs from its
    /// default.
    Field& Newer() {
      newer = true;
      return *this;
    }
  };

  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Binds a field; its value now is its default for help.
  template <typename T>
  Field& Add(std::string key, T& value, std::string help) {
    Field field;
    field.key = std::move(key);
    field.help = std::move(help);
    field.type = Convert<T>::TypeName();
    field.read = [&value](const Value& given) { return Convert<T>::Read(given, value); };
    field.write = [&value] { return Convert<T>::ToJson(value); };
    return AddField(std::move(field));
  }

  /// A field that is not simply a variable of the object.
  Field& AddCustom(std::string key,
                   std::string type,
                   std::string help,
                   std::function<Status(const Value&)> read,
                   std::function<Json()> write) {
    return AddField(
        {std::move(key), std::move(help), std::move(type), std::move(read), std::move(write)});
  }

  /// A nested group that always exists.
  Group& Sub(std::string key, std::string help);

  /// A nested group that may be absent (null). `describe` binds the object's fields; it runs again
  /// whenever the object's `type` may have changed, since the fields may follow from it.
  template <typename T>
  Group& OptionalSub(std::string key,
                     std::optional<T>& value,
                     std::function<void(T&, Group&)> describe,
                     std::string help) {
    Group& group = Sub(std::move(key), std::move(help));
    group.present_ = [&value] { return value.has_value(); };
    group.clear_ = [&value] { value.reset(); };
    group.build_ = [&value, describe](Group& into) {
      if (!value) {
        value.emplace();
      }
      describe(*value, into);
    };
    group.sample_ = [describe](Group& into) {
      auto fresh = std::make_shared<T>();
      describe(*fresh, into);
      return std::static_pointer_cast<void>(fresh);
    };
    return group;
  }

  /// The field or the group behind a dotted path is given `value`. kNotFound for an unknown path.
  Status Set(const std::string& path, const Value& value);

  /// Takes over a JSON object. Keys that are not declared: an error naming them, or collected
  /// (nested as they came) in `unknown`.
  Status ReadJson(const Json& object,
                  UnknownKeys policy,
                  Json* unknown = nullptr,
                  const std::string& prefix = "");

  /// The object with all keys in order, newer fields only where they differ from `defaults`, a
  /// description of the same type with its default values (null: all are written).
  Json WriteJson(Group* defaults = nullptr);

  /// Every flag below this group, in order.
  void CollectHelp(const std::string& prefix, std::vector<FieldHelp>& help);

  /// Every path, for "did you mean".
  std::vector<std::string> Paths();

  /// Leaves the whole group out of the file while nothing in it differs from its default.
  void MarkNewer() { newer_ = true; }

 private:
  struct Entry {
    std::string key;
    std::unique_ptr<Field> field;  ///< one of the two
    std::unique_ptr<Group> group;
  };

  Field& AddField(Field field);
  Entry* Find(const std::string& key);
  void Bind();
  Status ReadEntry(
      Entry& entry, const Json& value, UnknownKeys policy, Json* unknown, const std::string& path);

  std::vector<Entry> entries_;
  std::string help_;
  bool newer_ = false;
  std::function<bool()> present_;  ///< these four: optional groups only
  std::function<void()> clear_;
  std::function<void(Group&)> build_;
  std::function<std::shared_ptr<void>(Group&)> sample_;
};

/// Help text for people: groups with their flags, type, default and description, 100 columns.
std::string RenderHelp(const std::vector<FieldHelp>& help);

}  // namespace lr::config
