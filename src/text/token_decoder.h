// The "decoder" of tokenizer.json: steps from tokens, as they are written there, to text, each as the `tokenizers`
// library does it, token by token as they come. Byte-level tokenizers with the usual decoder do not need it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"

namespace espalier {

/// Each match in a token becomes `content`.
struct DecodeReplace {
  Pattern pattern;
  std::string content;
};
/// A row of tokens "<0xE4>" becomes the text of these bytes; U+FFFD for each of them if it is not UTF-8.
struct DecodeByteFallback {};
/// All tokens become one.
struct DecodeFuse {};
/// A token loses up to `start` times `content`, a character, at its start and up to `stop` times at its end.
struct DecodeStrip {
  std::string content;
  size_t start = 0, stop = 0;
};
/// Marks become spaces; in the first token, if `strip_first`, they vanish.
struct DecodeMetaspace {
  std::string mark;
  bool strip_first = true;
};
/// All tokens become one: the bytes that the byte alphabet spells, ill-formed ones U+FFFD.
struct DecodeByteLevel {};
/// Spaces go between the tokens: what the library does for a file without a decoder.
struct DecodeJoin {};

class TokenDecoder {
 public:
  using Step = std::variant<DecodeReplace, DecodeByteFallback, DecodeFuse, DecodeStrip, DecodeMetaspace,
                            DecodeByteLevel, DecodeJoin>;

  /// What decoding remembers between tokens.
  struct State {
    struct OfStep {
      std::string pending;
      size_t count = 0;  // of tokens, or of characters stripped
      bool started = false;
    };
    std::vector<OfStep> steps;
  };

  TokenDecoder() = default;
  explicit TokenDecoder(std::vector<Step> steps);

  /// Whether there is a step.
  bool empty() const { return steps_.empty(); }
  /// The text that a token adds to what earlier calls with this state have returned; well-formed.
  std::string push(State& state, std::string_view token) const;
  /// What is left; the state is then as new.
  std::string finish(State& state) const;

  /// The bytes that a token stands for inside a text.
  std::string token_bytes(std::string_view token) const;

 private:
  struct Run;  // steps on a state, with the text that comes out

  std::vector<Step> steps_;
  size_t fused_ = 0;     // from this step on there is one token
  bool streams_ = true;  // and that may come in parts
};

}  // namespace espalier
