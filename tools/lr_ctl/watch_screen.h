#pragma once
/// (pure) What lr-ctl watch writes: the same place of a terminal again and again, and nothing that
/// would have to be undone when it is interrupted.

#include <string>

namespace lr {

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 24;
};

/// Lines cut to the width, and to the height less one line for the cursor; the last line then says
/// how many are hidden.
std::string FitToScreen(const std::string& text, ScreenSize size);

/// Replaces `before` (what the last call showed; empty: nothing) by `now`. Both fit the screen; the
/// cursor stands below.
std::string Redraw(const std::string& before, const std::string& now);

}  // namespace lr
