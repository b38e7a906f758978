#include "text/unigram.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score; SentencePiece's kUnkPenalty

uint64_t scramble(uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  return key ^ key >> 32;
}

}  // namespace

Unigram::Unigram(const Pieces& pieces, int32_t unknown, bool byte_fallback) : nodes_(1), unknown_(unknown) {
  size_t bytes = 0;
  for (const auto& [token, score] : pieces) bytes += token.size();
  edges_.resize(std::bit_ceil(bytes * 2 + 2));
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < pieces.size(); ++id) {
    const auto& [token, score] = pieces[id];
    lowest = std::min(lowest, score);
    uint32_t node = 0;
    for (const char c : token) node = add_child(node, uint8_t(c));
    if (node != 0) nodes_[node] = {int32_t(id), score};
  }
  unknown_score_ = lowest - kUnknownPenalty;
  byte_ids_.fill(-1);
  for (int byte = 0; byte_fallback && byte < 256; ++byte)
    byte_ids_[size_t(byte)] = find(fmt::format("<0x{:02X}>", byte));
}

uint32_t Unigram::child(uint32_t node, uint8_t byte) const {
  const uint64_t key = (uint64_t{node} << 8 | byte) + 1;
  for (size_t slot = scramble(key) & (edges_.size() - 1);; slot = (slot + 1) & (edges_.size() - 1)) {
    if (edges_[slot].from == key) return edges_[slot].to;
    if (edges_[slot].from == 0) return 0;
  }
}

uint32_t Unigram::add_child(uint32_t node, uint8_t byte) {
  if (const uint32_t known = child(node, byte)) return known;
  const uint64_t key = (uint64_t{node} << 8 | byte) + 1;
  size_t slot = scramble(key) & (edges_.size() - 1);
  while (edges_[slot].from != 0) slot = (slot + 1) & (edges_.size() - 1);
  edges_[slot] = {key, uint32_t(nodes_.size())};
  nodes_.emplace_back();
  return edges_[slot].to;
}

int32_t Unigram::find(std::string_view token) const {
  uint32_t node = 0;
  for (const char c : token)
    if (node = child(node, uint8_t(c)); node == 0) return -1;
  return nodes_[node].id;
}

std::vector<Unigram::Best> Unigram::best_ways(std::string_view piece) const {
  std::vector<Best> best(piece.size() + 1);
  const auto offer = [&](size_t start, size_t end, int32_t id, double score) {
    if (!best[end].reached || score > best[end].score) best[end] = {score, uint32_t(start), id, true};
  };
  int length;
  for (size_t at = 0; at < piece.size(); at += size_t(length)) {
    utf8_decode(reinterpret_cast<const uint8_t*>(piece.data()) + at, length);
    const double before = best[at].score;
    bool single = false;  // the character is a token
    uint32_t node = 0;
    for (size_t end = at; end < piece.size();) {
      node = child(node, uint8_t(piece[end++]));
      if (node == 0) break;
      if (nodes_[node].id < 0) continue;
      offer(at, end, nodes_[node].id, nodes_[node].score + before);
      single |= end == at + size_t(length);
    }
    const Best& behind = best[at + size_t(length)];
    if (single || (behind.reached && behind.score >= unknown_score_ + before)) continue;
    if (unknown_ < 0)
      throw error(Code::kBadData, "tokenizing \"{}\": no token has it, and the vocabulary has no unknown token",
                  piece.substr(at, size_t(length)));
    offer(at, at + size_t(length), unknown_, unknown_score_ + before);
  }
  return best;
}

void Unigram::add_unknown(std::string_view text, uint32_t begin, std::vector<Symbol>& symbols) const {
  // Written backwards, as the way is walked.
  if (const int32_t id = find(text); id >= 0) return symbols.push_back({id, begin});
  const bool spelled =
      std::all_of(text.begin(), text.end(), [&](char byte) { return byte_ids_[uint8_t(byte)] >= 0; });
  if (!spelled) return symbols.push_back({unknown_, begin});
  for (size_t i = text.size(); i-- > 0;) symbols.push_back({byte_ids_[uint8_t(text[i])], begin});
}

void Unigram::encode(std::string_view piece, BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  const std::vector<Best> best = best_ways(piece);
  size_t unknown_end = 0;  // of a row of unknown characters; 0: none
  const auto end_row = [&](size_t begin) {
    if (unknown_end > begin) add_unknown(piece.substr(begin, unknown_end - begin), uint32_t(begin), symbols);
    unknown_end = 0;
  };
  for (size_t end = piece.size(); end > 0; end = best[end].start) {
    if (best[end].id == unknown_) {
      if (unknown_end == 0) unknown_end = end;
      continue;
    }
    end_row(end);
    symbols.push_back({best[end].id, best[end].start});
  }
  end_row(0);
  std::reverse(symbols.begin(), symbols.end());
}

}  // namespace espalier
