// Added tokens ("<|endoftext|>" and the like) written in a text: found before the pre-tokenizer sees it, the leftmost
// first, of several at one place the longest; with the library's options lstrip, rstrip and single_word. Most are
// looked for before the normalizer, those with `normalized` behind it, in their normalized form.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/normalizer.h"

namespace espalier {

/// An entry of "added_tokens" in tokenizer.json.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false, normalized = false;  ///< normalized: found in the normalized text
  bool single_word = false;            ///< only where no word character touches it
  bool lstrip = false, rstrip = false;  ///< swallows the white space before, behind it
};

/// A stretch of text, or an added token with what it swallowed.
struct Segment {
  uint32_t begin, end;
  int32_t id;  ///< -1: text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer);

  /// Replaces `segments` by the segments that tile a text which the normalizer leaves alone, none empty. Special tokens
  /// stay text without `parse_special`.
  void split(std::string_view text, bool parse_special, std::vector<Segment>& segments) const;
  /// The two halves of that: what is found before the normalizer and, in a segment of text, behind it.
  void split_source(std::string_view text, bool parse_special, std::vector<Segment>& segments) const;
  void split_normalized(std::string_view text, bool parse_special, std::vector<Segment>& segments) const;

  /// Whether a token in the text could tell that the text was cut before a space behind a non-space.
  bool allow_cuts() const { return allow_cuts_; }

 private:
  // Tokens that are matched before the normalizer, and those matched behind it, are two passes, as in the library.
  struct Matcher {
    struct Node {
      std::vector<std::pair<uint8_t, int32_t>> children;
      int32_t token = -1;
    };
    std::vector<Node> nodes{1};
    std::array<bool, 256> first{};
    int lone_first = -1;  // the only first byte, if there is only one

    void add(std::string_view content, int32_t token);
    /// The longest token at `at`, -1 if none.
    int32_t longest(std::string_view text, size_t at, size_t& end) const;
    size_t next_candidate(std::string_view text, size_t from) const;
  };
  void split_one(const Matcher& matcher, std::string_view text, bool parse_special,
                 std::vector<Segment>& segments) const;

  std::vector<AddedToken> tokens_;
  Matcher raw_, normalized_;
  bool allow_cuts_ = true;
};

}  // namespace espalier
