// The "normalizer" of tokenizer.json: steps that change the text before it is cut into pieces, each as the `tokenizers`
// library does it.
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/tracked_text.h"
#include "text/unicode_forms.h"

namespace espalier {

/// Each match becomes `content`.
struct ReplaceStep {
  Pattern pattern;
  std::string content;
};

/// Text is put before a text that is not empty.
struct PrependStep {
  std::string content;
};

/// Small letters for capitals.
struct LowercaseStep {};
/// White space goes from the ends.
struct StripStep {
  bool left = true, right = true;
};
/// Marks go: accents, of a text in form NFD.
struct StripAccentsStep {};
/// SentencePiece's cleaning: control characters go, odd spaces become spaces.
struct NmtStep {};
/// BERT's cleaning.
struct BertStep {
  bool clean_text = true, chinese_chars = true, strip_accents = true, lowercase = true;
};

class Normalizer {
 public:
  using Step = std::variant<ReplaceStep, PrependStep, UnicodeForm, LowercaseStep, StripStep, StripAccentsStep, NmtStep,
                            Charsmap, BertStep>;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// Whether a text and all its parts certainly stay as they are; a glance, and false where that does not tell.
  bool leaves_alone(std::string_view text) const;
  /// Whether a cut before a space or tab behind another visible ASCII character makes no difference to it.
  bool works_char_by_char() const;
  /// Changes a well-formed text.
  void apply(TrackedText& text) const;
  std::string apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

/// Puts `content` before the text; it covers what the first character covers.
void prepend(TrackedText& text, std::string_view content);

}  // namespace espalier
