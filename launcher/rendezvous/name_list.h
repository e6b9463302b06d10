#pragma once
/// (pure) Names of nodes in one line for people: the first eight, then a count, however many there
/// are. Names beyond those shown are never made.

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/base/text.h"

namespace lr::launcher {

class NameList {
 public:
  template <typename MakeName>
  void Add(MakeName make_name) {
    if (count_++ < kMost) {
      names_.push_back(make_name());
    }
  }

  bool empty() const { return count_ == 0; }

  /// "a, b, c and 5 more"; "nobody".
  std::string Text() const {
    if (empty()) {
      return "nobody";
    }
    const std::string shown = Join(names_, ", ");
    return count_ == names_.size() ? shown
                                   : fmt::format("{} and {} more", shown, count_ - names_.size());
  }

 private:
  static constexpr size_t kMost = 8;
  std::vector<std::string> names_;
  size_t count_ = 0;
};

}  // namespace lr::launcher
