// The "pre_tokenizer" of tokenizer.json: steps that cut a text into pieces, each applied to the pieces of the one
// before. Most only cut; some also put a mark or a space into the text. One hand-written step, the usual case of
// byte-level tokenizers, needs no memory; no step at all leaves the text one piece.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"
#include "text/split.h"
#include "text/tracked_text.h"
#include "text/unicode.h"

namespace espalier {

/// Cuts at what a pattern matches.
struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
};

/// Cuts between characters of different classes.
struct CharRunsStep {
  static constexpr int kRemoved = 0, kAlone = -1;  ///< classes of characters that vanish, that are pieces of their own
  int (*class_of)(uint32_t code_point);
};

/// SentencePiece's way: spaces become a visible mark, which also goes before the text, and words begin with one.
struct MetaspaceStep {
  enum Scheme { kAlways, kFirst, kNever };
  std::string mark;
  Scheme scheme = kAlways;  ///< which pieces get a mark before them: all, the one that starts the source, none
  bool split = true;
};

/// A piece that does not start with a space gets one.
struct PrefixSpaceStep {};

class PreTokenizer {
 public:
  using Step = std::variant<const SplitPattern*, SplitStep, CharRunsStep, MetaspaceStep, PrefixSpaceStep>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Step> steps);

  /// The hand-written pattern, where that is all there is; otherwise null.
  const SplitPattern* pattern() const { return pattern_; }
  /// Whether steps change the text, so that split() cannot do it.
  bool rewrites() const { return rewrites_; }
  /// Whether apply() must be given a tracked text.
  bool needs_origin() const { return needs_origin_; }

  /// Calls fn(begin, end) with the byte offsets of each piece of a well-formed text, in order. Not for rewrites().
  template <class F>
  void split(std::string_view text, F&& fn) const {
    if (pattern_) {
      for_each_piece(text, pattern_->piece_end, char_classes(), fn);
    } else if (steps_.empty()) {
      if (!text.empty()) fn(size_t{0}, text.size());
    } else {
      for (const Span& piece : split_by_steps(text)) fn(size_t{piece.begin}, size_t{piece.end});
    }
  }

  /// Changes the text as the steps say and returns its pieces, in order, none empty.
  std::vector<Span> apply(TrackedText& text) const;

 private:
  std::vector<Span> split_by_steps(std::string_view text) const;

  std::vector<Step> steps_;
  const SplitPattern* pattern_ = nullptr;
  bool rewrites_ = false, needs_origin_ = false;
};

}  // namespace espalier
