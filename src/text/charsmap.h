// SentencePiece's "precompiled_charsmap", the normalizer Precompiled of tokenizer.json: a double-array trie (Darts)
// from strings of UTF-8 to their replacements. Layout, little endian: u32 bytes of the trie; the trie's u32 units; the
// replacements, each ended by a zero byte. A unit is a label (bits 0-7, and 31), a leaf flag (8), and an offset (10-30,
// shifted left by 8 if bit 9 is set); a leaf's value is the place of its replacement.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tracked_text.h"

namespace espalier {

class Charsmap {
 public:
  /// Error kBadData where the parts do not fit the bytes; `what` names the file.
  Charsmap(std::string_view blob, const std::string& what);
  /// How keys are looked for. The `tokenizers` library looks at grapheme clusters of less than six bytes as a whole,
  /// where a key starts them (the rest of such a cluster is lost), and otherwise at single characters; SentencePiece
  /// takes the longest key at each place.
  enum class Matching { kClusters, kLongest };
  /// The same from base64.
  static Charsmap from_base64(std::string_view text, Matching matching, const std::string& what);

  /// A replacement, and the bytes of the text it stands for.
  struct Match {
    std::string_view replacement;
    size_t length;
  };
  /// The shortest or the longest key that the text starts with.
  std::optional<Match> find(std::string_view text, bool longest) const;

  void apply(TrackedText& text) const;

 private:
  std::vector<CharChange> by_longest_keys(std::string_view text) const;
  std::vector<CharChange> by_clusters(std::string_view text) const;

  Matching matching_ = Matching::kClusters;
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace espalier
