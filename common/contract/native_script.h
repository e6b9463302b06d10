#pragma once
/// (pure) The marker that the documented names (lerobot-train, …) carry: small scripts, valid as
/// shell and as Python text, that exec a native program beside them. The launcher recognises the
/// marker and starts the program itself.
///
///   # lr-native-program: lr-train
///
/// stands alone on a line within the first kNativeScriptSearchBytes of the script; the name is that
/// of a program in the script's own folder (after following symbolic links).

#include <optional>
#include <string>
#include <string_view>

namespace lr {

inline constexpr std::string_view kNativeScriptMarker = "# lr-native-program: ";
inline constexpr size_t kNativeScriptSearchBytes = 4096;

/// The program named by the marker line in `head`, the first bytes of a script; nullopt without
/// one.
std::optional<std::string> NativeScriptProgram(std::string_view head);

}  // namespace lr
