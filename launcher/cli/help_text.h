#pragma once
/// (pure) The text of --help, made from the option table.

#include <string>

namespace lr::launcher {

std::string HelpText();

}  // namespace lr::launcher
