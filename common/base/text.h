#pragma once
/// Small text helpers that several rooms need: joining, splitting, trimming, nearest name, short
/// numbers.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lr {

std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

/// Whole-string decimal integer; nullopt for anything else (no sign-only, spaces, trailing text or
/// overflow).
std::optional<int64_t> ParseInt(std::string_view text);

/// The candidate with the smallest edit distance to `name`, when it is close enough to be a likely
/// typing error (distance at most a third of the longer length, at least 1); for "did you mean".
std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& candidates);

/// 25650 -> "26K": divided by 1000 until below 1000, suffix "", K, M, B, T, Q, no decimals, round
/// half to even (LeRobot's format_big_number).
std::string ShortNumber(double value);

}  // namespace lr
