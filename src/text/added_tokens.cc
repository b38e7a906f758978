#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode.h"
#include "text/utf8.h"

namespace espalier {
namespace {

uint32_t char_before(std::string_view text, size_t at, int& length) {
  size_t start = at - 1;
  while (start > 0 && (uint8_t(text[start]) & 0xC0) == 0x80) --start;
  return utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + start, length);
}

uint32_t char_at(std::string_view text, size_t at, int& length) {
  return utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length);
}

bool word_touches(std::string_view text, size_t begin, size_t end) {
  int length;
  return (begin > 0 && is_word_character(char_before(text, begin, length))) ||
         (end < text.size() && is_word_character(char_at(text, end, length)));
}

size_t spaces_before(std::string_view text, size_t at) {
  for (int length; at > 0 && is_white_space(char_before(text, at, length));) at -= size_t(length);
  return at;
}

size_t spaces_behind(std::string_view text, size_t at) {
  for (int length; at < text.size() && is_white_space(char_at(text, at, length));) at += size_t(length);
  return at;
}

}  // namespace

void AddedTokens::Matcher::add(std::string_view content, int32_t token) {
  int32_t node = 0;
  for (const char c : content) {
    auto& children = nodes[size_t(node)].children;
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const auto& child) { return child.first == uint8_t(c); });
    if (found != children.end()) {
      node = found->second;
    } else {
      const auto next = int32_t(nodes.size());
      children.emplace_back(uint8_t(c), next);
      nodes.emplace_back();
      node = next;
    }
  }
  nodes[size_t(node)].token = token;
  first[uint8_t(content[0])] = true;
  lone_first = std::count(first.begin(), first.end(), true) == 1 ? uint8_t(content[0]) : -1;
}

int32_t AddedTokens::Matcher::longest(std::string_view text, size_t at, size_t& end) const {
  int32_t node = 0, token = -1;
  for (size_t i = at; i < text.size(); ++i) {
    const auto& children = nodes[size_t(node)].children;
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const auto& child) { return child.first == uint8_t(text[i]); });
    if (found == children.end()) break;
    node = found->second;
    if (nodes[size_t(node)].token >= 0) {
      token = nodes[size_t(node)].token;
      end = i + 1;
    }
  }
  return token;
}

size_t AddedTokens::Matcher::next_candidate(std::string_view text, size_t from) const {
  if (nodes.size() == 1) return text.size();
  if (lone_first >= 0) {
    const void* found = std::memchr(text.data() + from, lone_first, text.size() - from);
    return found ? size_t(static_cast<const char*>(found) - text.data()) : text.size();
  }
  while (from < text.size() && !first[uint8_t(text[from])]) ++from;
  return from;
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer) : tokens_(tokens) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    const std::string content = token.normalized ? normalizer.apply(token.content) : token.content;
    if (content.empty()) continue;
    (token.normalized ? normalized_ : raw_).add(content, int32_t(i));
    const bool has_space = std::any_of(content.begin(), content.end(),
                                       [](char c) { return c == ' ' || c == '\t'; });
    if (token.rstrip || has_space) allow_cuts_ = false;
  }
}

void AddedTokens::split_one(const Matcher& matcher, std::string_view text, bool parse_special,
                            std::vector<Segment>& segments) const {
  size_t done = 0;
  for (size_t at = 0; (at = matcher.next_candidate(text, at)) < text.size();) {
    size_t end = 0;
    const int32_t found = matcher.longest(text, at, end);
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[size_t(found)];
    size_t begin = at;
    at = end;  // a match that is turned down is passed over all the same
    if (token.special && !parse_special) continue;
    if (begin < done || (token.single_word && word_touches(text, begin, end))) continue;
    if (token.lstrip) begin = std::max(spaces_before(text, begin), done);
    if (token.rstrip) end = spaces_behind(text, end);
    if (done < begin) segments.push_back({uint32_t(done), uint32_t(begin), -1});
    segments.push_back({uint32_t(begin), uint32_t(end), token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({uint32_t(done), uint32_t(text.size()), -1});
}

void AddedTokens::split_source(std::string_view text, bool parse_special, std::vector<Segment>& segments) const {
  segments.clear();
  split_one(raw_, text, parse_special, segments);
}

void AddedTokens::split_normalized(std::string_view text, bool parse_special, std::vector<Segment>& segments) const {
  segments.clear();
  split_one(normalized_, text, parse_special, segments);
}

void AddedTokens::split(std::string_view text, bool parse_special, std::vector<Segment>& segments) const {
  split_source(text, parse_special, segments);
  if (normalized_.nodes.size() == 1) return;
  std::vector<Segment> first, inner;
  first.swap(segments);
  for (const Segment& segment : first) {
    if (segment.id >= 0) {
      segments.push_back(segment);
      continue;
    }
    split_normalized(text.substr(segment.begin, segment.end - segment.begin), parse_special, inner);
    for (const Segment& part : inner)
      segments.push_back({segment.begin + part.begin, segment.begin + part.end, part.id});
  }
}

}  // namespace espalier
