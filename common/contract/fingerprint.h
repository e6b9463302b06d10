#pragma once
/// (pure) A short fingerprint of a text: tells apart values that should be equal (plan digest,
/// environment). Not for trust: 64-bit FNV-1a, chosen because it is the same on every machine and
/// needs no library.

#include <string>
#include <string_view>

namespace lr {

/// 16 hexadecimal digits.
std::string Fingerprint(std::string_view text);

}  // namespace lr
