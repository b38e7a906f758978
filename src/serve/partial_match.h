// Whether a tag may have begun at the end of a text that is still growing.
#pragma once
#include <algorithm>
#include <string_view>

namespace espalier {

/// The length of the longest end of `text` that is a beginning of `tag`, but not all of it.
inline size_t partial_match(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n)
    if (text.ends_with(tag.substr(0, n))) return n;
  return 0;
}

}  // namespace espalier
