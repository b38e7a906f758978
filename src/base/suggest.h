// "Did you mean": the nearest of the known names.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace espalier {

/// The candidate with the least edit distance to `word`, if that is at most a third of its length (at least 1, at
/// most 4 edits); otherwise empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// " (did you mean 'X'?)" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace espalier
