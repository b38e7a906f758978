#include "text/pattern.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier {
namespace {

void find_literal(std::string_view text, Span span, std::string_view wanted, std::vector<Span>& matches) {
  if (wanted.empty()) return;
  const std::string_view part = text.substr(0, span.end);
  for (size_t at = span.begin; (at = part.find(wanted, at)) != part.npos; at += wanted.size())
    matches.push_back({uint32_t(at), uint32_t(at + wanted.size())});
}

void find_chars(std::string_view text, Span span, Pattern::CharTest test, std::vector<Span>& matches) {
  int length;
  for (uint32_t at = span.begin; at < span.end; at += uint32_t(length))
    if (test(utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length)))
      matches.push_back({at, at + uint32_t(length)});
}

/// A piece of the text that is a match or lies between two.
struct Tile {
  Span span;
  bool match;
};

std::vector<Tile> tiles_of(Span span, const std::vector<Span>& matches, bool invert) {
  std::vector<Tile> tiles;
  uint32_t done = span.begin;
  for (const Span& match : matches) {
    if (done < match.begin) tiles.push_back({{done, match.begin}, invert});
    tiles.push_back({match, !invert});
    done = match.end;
  }
  if (done < span.end) tiles.push_back({{done, span.end}, invert});
  return tiles;
}

}  // namespace

void Pattern::find(std::string_view text, Span span, std::vector<Span>& matches) const {
  if (const auto* literal = std::get_if<std::string>(&kind_)) {
    find_literal(text, span, *literal, matches);
  } else if (const auto* regex = std::get_if<RegexSplitter>(&kind_)) {
    regex->find(text, span, matches);
  } else {
    find_chars(text, span, std::get<CharTest>(kind_), matches);
  }
}

bool Pattern::surely_absent(std::string_view text) const {
  const auto* const literal = std::get_if<std::string>(&kind_);
  return literal && text.find(*literal) == text.npos;
}

void split_at(Span span, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
              std::vector<Span>& pieces) {
  const std::vector<Tile> tiles = tiles_of(span, matches, invert);
  const size_t first = pieces.size();
  if (behavior == SplitBehavior::kMergedWithNext) {
    // From the end: a match joins the piece behind it, unless that is a match.
    bool before = false;
    for (size_t i = tiles.size(); i-- > 0;) {
      const Tile& tile = tiles[i];
      if (tile.match && !before && pieces.size() > first) {
        pieces.back().begin = tile.span.begin;
      } else {
        pieces.push_back(tile.span);
      }
      before = tile.match;
    }
    std::reverse(pieces.begin() + ptrdiff_t(first), pieces.end());
    return;
  }
  bool before = false;
  for (const Tile& tile : tiles) {
    const bool joins = (behavior == SplitBehavior::kMergedWithPrevious && tile.match && !before) ||
                       (behavior == SplitBehavior::kContiguous && tile.match == before);
    before = tile.match;
    if (behavior == SplitBehavior::kRemoved && tile.match) continue;
    if (joins && pieces.size() > first) {
      pieces.back().end = tile.span.end;
    } else {
      pieces.push_back(tile.span);
    }
  }
}

TrackedText replace_all(const TrackedText& text, const Pattern& pattern, std::string_view content) {
  std::vector<Span> matches;
  pattern.find(text.text, {0, uint32_t(text.text.size())}, matches);
  TextEdit edit(text);
  size_t done = 0;
  for (const Span& match : matches) {
    edit.keep(done, match.begin);
    edit.put_behind(content, match.end);
    done = match.end;
  }
  edit.keep(done, text.text.size());
  return edit.take();
}

}  // namespace espalier
