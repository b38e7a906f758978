#include "mutate.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace espalier {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 16;

// Values at which sizes, offsets and signs go wrong.
constexpr uint64_t kIntegers[] = {0,          1,          2,          7,           8,         64,
                                  127,        128,        255,        256,         32767,     32768,
                                  65535,      65536,      65537,      1u << 24,    1u << 31,  0x7FFFFFFF,
                                  0xFFFFFFFF, 1ull << 32, 1ull << 40, 1ull << 62, ~0ull >> 1, 1ull << 63, ~0ull};

constexpr std::string_view kPieces[] = {
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0000", "\\ud800", "null", "true", "-1", "0", "1e999", "1e-999",
    "18446744073709551615", "-9223372036854775808", "9223372036854775808", "{\"a\":", "[[[[[[[[", "\xff", "\xc3",
    std::string_view("\0", 1), "\n", " ", "=", "'", "#", "nan", "0x", "../", "<|endoftext|>"};

void flip_bit(std::string& input, Dice& dice) {
  if (!input.empty()) input[dice.below(input.size())] ^= char(1 << dice.below(8));
}

void change_byte(std::string& input, Dice& dice) {
  if (!input.empty()) input[dice.below(input.size())] = char(dice.below(256));
}

void truncate(std::string& input, Dice& dice) { input.resize(dice.below(input.size() + 1)); }

void erase_piece(std::string& input, Dice& dice) {
  const size_t begin = dice.below(input.size() + 1);
  input.erase(begin, 1 + dice.below(16));
}

void repeat_piece(std::string& input, Dice& dice) {
  const size_t begin = dice.below(input.size() + 1);
  const std::string piece = input.substr(begin, 1 + dice.below(32));
  for (uint64_t n = 1 + dice.below(40); n > 0; --n) input.insert(begin, piece);
}

void splice(std::string& input, Dice& dice, const std::vector<std::string>& seeds) {
  const std::string& other = seeds[dice.below(seeds.size())];
  const size_t cut = dice.below(input.size() + 1);
  input = input.substr(0, cut) + other.substr(dice.below(other.size() + 1));
}

void put_integer(std::string& input, Dice& dice) {
  const uint64_t value = kIntegers[dice.below(std::size(kIntegers))];
  const size_t bytes = size_t{1} << dice.below(4);
  // Binary formats keep their integers at aligned places, near the front.
  const size_t range = dice.below(2) ? std::min<size_t>(input.size(), 64) : input.size();
  const size_t at = dice.below(range / bytes + 1) * bytes;
  if (at + bytes <= input.size()) std::memcpy(input.data() + at, &value, bytes);
}

// Replaces a run of decimal digits, which is how text formats hold their sizes and offsets.
void put_number(std::string& input, Dice& dice) {
  const size_t begin = input.find_first_of("0123456789", dice.below(input.size() + 1));
  if (begin == std::string::npos) return;
  const size_t end = std::min(input.find_first_not_of("0123456789", begin), input.size());
  input.replace(begin, end - begin, std::to_string(kIntegers[dice.below(std::size(kIntegers))]));
}

void insert_piece(std::string& input, Dice& dice) {
  const std::string_view piece = kPieces[dice.below(std::size(kPieces))];
  input.insert(dice.below(input.size() + 1), piece);
}

void append_random(std::string& input, Dice& dice) {
  for (uint64_t n = 1 + dice.below(64); n > 0; --n) input += char(dice.below(256));
}

}  // namespace

std::string mutated_input(const std::vector<std::string>& seeds, uint64_t seed, uint64_t iteration) {
  if (iteration < seeds.size()) return seeds[iteration];
  Dice dice(seed, iteration);
  std::string input = seeds[dice.below(seeds.size())];
  for (uint64_t n = 1 + dice.below(8); n > 0; --n) {
    switch (dice.below(10)) {
      case 0: flip_bit(input, dice); break;
      case 1: change_byte(input, dice); break;
      case 2: truncate(input, dice); break;
      case 3: erase_piece(input, dice); break;
      case 4: repeat_piece(input, dice); break;
      case 5: splice(input, dice, seeds); break;
      case 6: put_integer(input, dice); break;
      case 7: put_number(input, dice); break;
      case 8: insert_piece(input, dice); break;
      case 9: append_random(input, dice); break;
    }
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
  }
  return input;
}

}  // namespace espalier
