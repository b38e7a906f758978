// TextStream: generated tokens to text that may be shown: whole characters only, and nothing that a stop string may be
// about to take back.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace espalier {

class TextStream {
 public:
  /// Special tokens give no text. Empty stop strings are Error kUsage.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop);

  /// The text that the token sets free; empty while a character or a stop string may be forming. With the token that
  /// completes a stop string comes the text before it; then stopped() holds and nothing more comes.
  std::string push(int32_t id);
  /// What was held back.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string release();

  DecodeStream decoder_;
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace espalier
