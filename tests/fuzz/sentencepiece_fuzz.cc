// tokenizer.model: whatever is accepted encodes and decodes any text, with ids that exist.
#include <cstdlib>

#include "base/error.h"
#include "fuzz.h"
#include "text/sentencepiece_model.h"

namespace {

using espalier::Tokenizer;

void check(const Tokenizer& tokenizer, std::string_view text) {
  try {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = true});
    for (const int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    tokenizer.decode(ids);
  } catch (const espalier::Error&) {  // the edge: a Unigram model without an unknown token refuses some texts
  }
}

std::string field(int number, std::string_view bytes) {
  return std::string(1, char(number << 3 | 2)) + char(bytes.size()) + std::string(bytes);
}

std::string piece(std::string_view text, char score, char type) {
  const std::string number = {0, 0, score, '\xc0'};  // -2 to -4
  return field(1, field(1, text) + "\x15" + number + "\x18" + type);
}

std::string model(char type, const std::string& normalizer) {
  std::string bytes = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0xF0>", 0, 6);
  for (const char* text : {"\u2581", "a", "b", "ab", "\u2581" "a", "aa", "\u65e5"})
    bytes += piece(text, char(text[0] & 127), 1);
  return bytes + piece("<x>", 0, 4) + field(2, std::string("\x18") + type + "\x98\x02\x01") + field(3, normalizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = espalier::sentencepiece_tokenizer(input, "input", {.add_bos = true, .add_eos = true});
    check(tokenizer, "ab  aab \u65e5\u672c <x><s> \xff");
    check(tokenizer, input.substr(size / 2));
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string plain("\x18\x01\x20\x00", 4), charsmap = "\x12\x04" + std::string(4, '\0');
  return {model(1, plain), model(2, plain), model(1, charsmap), model(2, "")};
}
