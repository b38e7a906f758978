// The Unigram model of SentencePiece: a piece of text becomes the row of tokens with the highest sum of scores (log
// probabilities), found by the Viterbi algorithm, as the `tokenizers` library does it. Characters of no token are the
// unknown token, a row of them one, or tokens of their bytes "<0xE4>".
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/bpe.h"

namespace espalier {

class Unigram {
 public:
  using Pieces = std::vector<std::pair<std::string_view, double>>;

  Unigram() = default;
  /// `pieces` by id. `unknown` is below their number, or -1: texts with characters of no token are then an error.
  Unigram(const Pieces& pieces, int32_t unknown, bool byte_fallback);

  /// Encodes a piece into scratch.symbols. Tokens of the bytes of an unknown row all begin where it does. Error
  /// kBadData for characters of no token where there is no unknown token.
  void encode(std::string_view piece, BpeScratch& scratch) const;

 private:
  struct Edge {
    uint64_t from = 0;  // node * 256 + byte, plus one; 0: free
    uint32_t to = 0;
  };
  struct Node {
    int32_t id = -1;
    double score = 0;
  };
  /// The best way to the end of a prefix of the text.
  struct Best {
    double score = 0;
    uint32_t start = 0;
    int32_t id = -1;  // of its last token
    bool reached = false;
  };

  uint32_t child(uint32_t node, uint8_t byte) const;  // 0: none
  uint32_t add_child(uint32_t node, uint8_t byte);
  int32_t find(std::string_view token) const;
  std::vector<Best> best_ways(std::string_view piece) const;
  void add_unknown(std::string_view text, uint32_t begin, std::vector<Symbol>& symbols) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // open addressing, a power of two
  std::array<int32_t, 256> byte_ids_{};
  int32_t unknown_ = -1;
  double unknown_score_ = 0;
};

}  // namespace espalier
