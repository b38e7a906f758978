// Ranges of characters as ranges of bytes.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "text/grammar_source.h"

namespace espalier {

/// UTF-8 sequences of one length: byte i is from low[i] to high[i], each independent of the others.
struct ByteRanges {
  int length;
  std::array<uint8_t, 4> low, high;
};

/// The UTF-8 forms of all characters of a range, surrogates left out.
std::vector<ByteRanges> utf8_ranges(CodeRange range);

}  // namespace espalier
