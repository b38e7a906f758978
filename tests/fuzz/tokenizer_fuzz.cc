// tokenizer.json: whatever is accepted encodes any bytes without a crash, its pieces go through the text in order, and
// decoding in a stream equals decoding at once. With a good tokenizer, decoding gives any text back.
#include "text/tokenizer.h"

#include <cstdlib>

#include "base/error.h"
#include "fuzz.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

using espalier::ByteLevelModel;
using espalier::Tokenizer;

namespace {

/// A vocabulary of the 256 bytes, two special tokens and a few merges.
std::string small_tokenizer(const espalier::SplitPattern& pattern) {
  ByteLevelModel model{.pattern = &pattern, .special_tokens = {"<|end|>", "<|x y|>"}};
  model.tokens = model.special_tokens;
  for (const uint8_t byte : espalier::bytes_in_char_order()) {
    const char c = char(byte);
    model.tokens.push_back(espalier::bytes_to_chars({&c, 1}));
  }
  const auto id = [&](std::string_view token) {
    for (size_t i = 0; i < model.tokens.size(); ++i)
      if (model.tokens[i] == token) return int32_t(i);
    std::abort();
  };
  for (const auto& [left, right] : {std::pair{"t", "h"}, {"th", "e"}, {"Ġ", "the"}, {"a", "a"}, {"aa", "aa"}}) {
    model.tokens.push_back(std::string(left) + right);
    model.merges.push_back({id(left), id(right), id(model.tokens.back())});
  }
  return write_tokenizer_json(model);
}

void check(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids, {.add_special = true});
  espalier::DecodeStream stream(tokenizer);
  std::string streamed;
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    streamed += stream.push(id);
  }
  if (streamed + stream.finish() != tokenizer.decode(ids)) std::abort();
  const auto pieces = tokenizer.encode_pieces(text, {.add_special = true});
  if (pieces.size() != ids.size()) std::abort();
  uint32_t begin = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& piece = pieces[i];
    if (piece.id != ids[i] || piece.begin > piece.end || piece.begin < begin || piece.end > text.size()) std::abort();
    begin = piece.begin;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static const Tokenizer good = Tokenizer::from_json(small_tokenizer(espalier::kLlama3Split), "good");
  check(good, input);
  if (good.decode(good.encode(input)) != espalier::repair_utf8(input).text) std::abort();
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(input, "input");
    check(tokenizer, "I'll see  the\n\naaaaa 1234<|end|>\xF0\x9F\x99\x82\xFF <|x y|>");
    check(tokenizer, input.substr(size / 2));
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::string sequence = small_tokenizer(espalier::kQwen2Split);
  const std::string vocabulary = R"("vocab":{"a":0,"b":1,"ab":2,"Ġ":7},"merges":["a b"])";
  const std::string added = R"("added_tokens":[{"id":3,"content":"<x>","special":true,"lstrip":true,"rstrip":true},)"
                            R"({"id":4,"content":"ab","normalized":true,"single_word":true}])";
  const std::string bytes = R"("pre_tokenizer":{"type":"ByteLevel"})";
  const std::string characters = R"("model":{"type":"BPE","byte_fallback":true,"unk_token":"<x>","fuse_unk":true,)"
                                 R"("vocab":{"<x>":3,"<0xF0>":5,"<0x9F>":6,"<0xFF>":7,"\u2581":8,"a":9,"b":10,"c":11,)"
                                 R"("\u2581a":12,"bc":13},"merges":["\u2581 a","b c"]})";
  // A trie of 128 units in which "b" becomes "a".
  const std::string charsmap = "AAIAAAAE" + std::string(518, 'A') + "CAAAAAAGIJ" + std::string(152, 'A') + "YQA=";
  const std::string unigram = R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<x>",0],["\u2581",-2],["a",-3],)"
                              R"(["ab",-4],["ba",-5],["<0xC3>",-9]],"byte_fallback":)";
  return {
      small_tokenizer(espalier::kGpt2Split),
      sequence,
      "{" + added + "," + bytes + R"(,"model":{"type":"BPE","unk_token":"<x>","fuse_unk":true,)" + vocabulary + "}}",
      "{" + added + R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Split",)" +
          R"("pattern":{"Regex":"[a-z]+|\\s"},"behavior":"Isolated"},)" +
          R"({"type":"ByteLevel","add_prefix_space":false}]},)" +
          R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>","type_id":0}},)" +
          R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<x>":{"ids":[3]}}},)" +
          R"("model":{"ignore_merges":true,)" + vocabulary + "}}",
      "{" + added + "," + bytes + R"(,"post_processor":{"type":"RobertaProcessing","cls":["<x>",3],"sep":["ab",2]},)" +
          R"("decoder":{"type":"ByteLevel"},"model":{)" + vocabulary + "}}",
      "{" + added + R"(,"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},)" +
          R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"},)" +
          R"({"type":"Replace","pattern":{"Regex":"a{2,}"},"content":"bc"}]},)" +
          R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)" +
          R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,)" +
          R"("stop":1}]},)" + characters + "}",
      "{" + added + R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",)" +
          R"("pattern":{"String":"b"},"behavior":"MergedWithNext","invert":true},)" +
          R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":true}]},)" +
          R"("decoder":{"type":"Metaspace"},)" + characters + "}",
      R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Nmt"},{"type":"Lowercase"},)"
          R"({"type":"StripAccents"},{"type":"Precompiled","precompiled_charsmap":")" + charsmap + R"("},)" +
          R"({"type":"Strip","strip_left":true,"strip_right":true}]},)" +
          R"("pre_tokenizer":{"type":"Metaspace","replacement":"\u2581"},)" + unigram + "false}}",
      R"({"normalizer":{"type":"NFD"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},)"
          R"({"type":"Punctuation"},{"type":"BertPreTokenizer"},{"type":"Whitespace"}]},)" + unigram + "true}}",
  };
}
