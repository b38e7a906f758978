// New tokens in a tokenizer.json of any kind that is read at all: they get the ids behind the last, the text written is
// read again, and no old token changes; or there is an Error.
#include "text/extend_vocabulary.h"

#include <cstdlib>

#include "base/error.h"
#include "fuzz.h"

using espalier::Tokenizer;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Tokenizer old = Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "input");
    if (old.vocab_size() > 1'000'000) return 0;  // a few bytes may name a huge id
    const Tokenizer grown = with_added_tokens(old, std::vector<std::string>{"<new>", "\"\\\n"});
    const Tokenizer again = Tokenizer::from_json(grown.to_json(), "again");
    if (again.vocab_hash() != grown.vocab_hash() || grown.vocab_size() != old.vocab_size() + 2) std::abort();
    for (int32_t id = 0; id < old.vocab_size(); ++id)
      if (old.token_bytes(id) != grown.token_bytes(id)) std::abort();
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string model = R"("pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE",)"
                            R"("vocab":{"a":0,"b":1,"]":2,"ab":3},"merges":["a b"]})";
  return {
      "{" + model + "}",
      R"({"added_tokens":[],)" + model + "}",
      R"({"version":"1.0,{[\"","added_tokens":[{"id":4,"content":"<x>","special":true},{"id":9,"content":"]}"}],)" +
          model + "}",
      R"({"added_tokens":null,)" + model + "}",
      "{" + model + R"(,"added_tokens":[{"id":4,"content":"\\"}] , "added_tokens" : [ ] })",
  };
}
