// BPE that starts from characters against BPE by the book from bytes, on merges made at random in the manner of
// training: of such few bytes that merges within characters, across their borders, and of parts of them all compete.
#include "text/char_starts.h"

#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/bpe.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr int kBytes = 256;

std::array<int32_t, 256> bytes_as_ids() {
  std::array<int32_t, 256> ids;
  for (int i = 0; i < kBytes; ++i) ids[size_t(i)] = i;
  return ids;
}

Bpe bpe_of(const std::vector<Merge>& merges) {
  BpeAlphabet alphabet;
  alphabet.byte_ids = bytes_as_ids();
  return Bpe(std::move(alphabet), merges);
}

using Ranks = std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>>;

std::vector<int32_t> by_the_book(std::string_view text, const Ranks& ranks, size_t below = ~size_t{0}) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(uint8_t(c));
  for (;;) {
    std::pair<size_t, int32_t> best{below, 0};
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && found->second.first < best.first) best = found->second, at = i;
    }
    if (best.first == below) return ids;
    ids[at] = best.second;
    ids.erase(ids.begin() + ptrdiff_t(at) + 1);
  }
}

class Random {
 public:
  explicit Random(uint64_t seed) : rng_(seed, Purpose::kTest) {}
  size_t below(size_t n) { return size_t(rng_.below(next_++, n)); }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

std::string random_text(Random& random, size_t most) {
  static const std::vector<std::string> kParts = {"a", " ", "\u4e00", "\u4e01", "\u4e40", "\u5e00", "\u5e01",
                                                  "\u00e4", "\u00c4", "\U0001f600", "\u8e00", "b"};
  std::string text;
  for (size_t n = 1 + random.below(most); n > 0; --n) text += kParts[random.below(kParts.size())];
  return text;
}

/// As training does: each next merge joins two neighbours of a text encoded with the merges so far.
std::vector<Merge> random_merges(Random& random, Ranks& ranks) {
  std::vector<Merge> merges;
  std::map<std::string, int32_t> tokens;
  std::vector<std::string> spelled;
  for (int i = 0; i < kBytes; ++i) spelled.emplace_back(1, char(i));
  for (int i = 0; i < 60; ++i) {
    const std::vector<int32_t> ids = by_the_book(random_text(random, 6), ranks);
    if (ids.size() < 2) continue;
    const size_t at = random.below(ids.size() - 1);
    const std::string joined = spelled[size_t(ids[at])] + spelled[size_t(ids[at + 1])];
    if (!tokens.emplace(joined, int32_t(spelled.size())).second) continue;
    merges.push_back({ids[at], ids[at + 1], int32_t(spelled.size())});
    ranks[{ids[at], ids[at + 1]}] = {merges.size() - 1, merges.back().result};
    spelled.push_back(joined);
  }
  return merges;
}

std::vector<int32_t> encode(const Bpe& bpe, std::string_view text) {
  BpeScratch scratch;
  bpe.encode(text, scratch);
  std::vector<int32_t> ids;
  for (const Symbol& symbol : scratch.symbols) ids.push_back(symbol.id);
  return ids;
}

TEST(CharStarts, ChangesNoIds) {
  Random random(7);
  int64_t used = 0, unused = 0;
  for (int vocabulary = 0; vocabulary < 400; ++vocabulary) {
    Ranks ranks;
    const std::vector<Merge> merges = random_merges(random, ranks);
    const Bpe bpe = bpe_of(merges);
    const CharStarts starts(bytes_as_ids(), merges);
    for (int i = 0; i < 40; ++i) {
      std::string text = random_text(random, 12);
      if (i % 8 == 0) text = text.substr(random.below(text.size()));  // begins inside a character
      EXPECT_EQ(encode(bpe, text), by_the_book(text, ranks)) << vocabulary << ": " << text;
      const auto* const begin = reinterpret_cast<const uint8_t*>(text.data());
      for (size_t at = 0; at < text.size() && !starts.empty(); ++at)
        if (begin[at] >= 0xC0) ++(starts.find(begin, begin + at, begin + text.size()) >= 0 ? used : unused);
    }
  }
  EXPECT_GT(used, 10000);  // both ways were taken
  EXPECT_GT(unused, 10000);
}

TEST(CharStarts, IsEmptyWhereRanksMayFall) {
  const std::vector<Merge> right_order = {{0xE4, 0xB8, 256}, {256, 0x80, 257}};
  EXPECT_FALSE(CharStarts(bytes_as_ids(), right_order).empty());
  EXPECT_TRUE(CharStarts(bytes_as_ids(), {right_order[1], right_order[0]}).empty());
  EXPECT_TRUE(CharStarts(bytes_as_ids(), {right_order[0], right_order[1], right_order[0]}).empty());
}

TEST(CharStarts, KnowsNeighboursThatComeFirst) {
  // "\u4e00" is made by the second and third merge; before that a space takes its first byte, and "\xE5" its last.
  const std::vector<Merge> merges = {{' ', 0xE4, 256}, {0xE4, 0xB8, 257}, {0x80, 0xE5, 258}, {257, 0x80, 259}};
  const CharStarts starts(bytes_as_ids(), merges);
  const auto token = [&](std::string_view before, std::string_view behind) {
    const std::string text = std::string(before) + "\u4e00" + std::string(behind);
    const auto* const begin = reinterpret_cast<const uint8_t*>(text.data());
    return starts.find(begin, begin + before.size(), begin + text.size());
  };
  EXPECT_EQ(token("", ""), 259);
  EXPECT_EQ(token("\u4e00", "\u4e00"), 259);
  EXPECT_EQ(token("", "a"), 259);
  EXPECT_EQ(token(" ", ""), -1);
  EXPECT_EQ(token("a", ""), -1);  // told apart by ASCII or not, no finer
  EXPECT_EQ(token("", "\u5e00"), -1);
  EXPECT_EQ(token("", "\x80"), -1);
}

}  // namespace
}  // namespace espalier
