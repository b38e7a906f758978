// Vocabularies in GGUF files: whatever is accepted encodes and decodes any text, with ids that exist; and where it can
// be written again, what is written gives the same ids.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "fuzz.h"
#include "models/gguf_tokenizer.h"
#include "text/byte_alphabet.h"
#include "text/gguf_tokenizer.h"

namespace {

using namespace espalier;

constexpr const char* kTexts[] = {"I'll  see\n\n ab aab 12<s>", "\xE2\x96\x81 \xE4\xB8\xAD\xF0\x9F\x99\x82\xFF    ",
                                  ""};

/// A file without a name; the same for all inputs.
struct MemoryFile {
  int fd = ::memfd_create("input", 0);
  std::string path = "/proc/self/fd/" + std::to_string(fd);

  void put(const uint8_t* data, size_t size) const {
    if (fd < 0 || ::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != ssize_t(size)) std::abort();
  }
};

void check(const Tokenizer& tokenizer) {
  for (const char* text : kTexts) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = true});
    for (const int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    DecodeStream stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    if (streamed + stream.finish() != tokenizer.decode(ids)) std::abort();
  }
}

void check_written(const Tokenizer& tokenizer) {
  const GgufVocabulary written = vocabulary_of(tokenizer, tokenizer.vocab_size(), "input");
  const Tokenizer again = tokenizer_of(written, "what was written");
  for (const char* text : kTexts)
    if (again.encode(text) != tokenizer.encode(text)) std::abort();
}

// ---- Seeds: metadata and nothing else.

std::string file_of(const GgufMetadataBuilder& metadata) {
  std::string file = "GGUF";
  for (const uint64_t count : {uint64_t{3}, uint64_t{0}, metadata.count()})
    file.append(reinterpret_cast<const char*>(&count), count == 3 && file.size() == 4 ? 4 : 8);
  return file + metadata.bytes();
}

struct Arrays {
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

Arrays byte_level() {
  Arrays a{.tokens = {"<s>", "<tool>"}, .merges = {"a b", "\xC4\xA0 ab", "1 2"}, .types = {3, 4}};
  for (const uint8_t byte : bytes_in_char_order()) {
    const char c = char(byte);
    a.tokens.push_back(bytes_to_chars({&c, 1}));
  }
  for (const char* token : {"ab", "\xC4\xA0" "ab", "12"}) a.tokens.push_back(token);
  a.types.resize(a.tokens.size(), 1);
  return a;
}

Arrays scored() {
  Arrays a{.tokens = {"<unk>", "<s>", "  ", "   ", "\xE2\x96\x81", "a", "b", "ab", "\xE2\x96\x81" "ab", "<0x0A>"}};
  a.types = {2, 3, 4, 4, 1, 1, 1, 1, 1, 6};
  a.scores = {0, 0, -1000, -1000, -5, -6, -7, 0, -1, 0};
  return a;
}

GgufMetadataBuilder metadata_of(const char* model, const char* pre, const Arrays& a) {
  GgufMetadataBuilder m;
  m.put("tokenizer.ggml.model", model);
  m.put("tokenizer.ggml.pre", pre);
  m.put("tokenizer.ggml.tokens", a.tokens);
  m.put("tokenizer.ggml.token_type", a.types);
  if (!a.merges.empty()) m.put("tokenizer.ggml.merges", a.merges);
  if (!a.scores.empty()) m.put("tokenizer.ggml.scores", a.scores);
  m.put("tokenizer.ggml.bos_token_id", uint32_t{1});
  return m;
}

std::string gpt2(const char* pre, const Arrays& a) { return file_of(metadata_of("gpt2", pre, a)); }
std::string llama(const Arrays& a) { return file_of(metadata_of("llama", "default", a)); }

template <class Change>
Arrays changed(Arrays a, Change&& change) {
  change(a);
  return a;
}

/// Arrays of types that they should not have.
std::vector<std::string> wrong_types() {
  const Arrays a = scored();
  GgufMetadataBuilder tokens, scores, types;
  for (GgufMetadataBuilder* m : {&tokens, &scores, &types}) m->put("tokenizer.ggml.model", "llama");
  tokens.put("tokenizer.ggml.tokens", a.types);
  for (GgufMetadataBuilder* m : {&scores, &types}) m->put("tokenizer.ggml.tokens", a.tokens);
  scores.put("tokenizer.ggml.scores", a.tokens);
  types.put("tokenizer.ggml.scores", a.scores);
  types.put("tokenizer.ggml.token_type", a.scores);
  return {file_of(tokens), file_of(scores), file_of(types)};
}

/// The same vocabularies with what the input's lines add: a type, a score and a token each, or, for byte-level ones, a
/// merge where it has a space. Mutations of whole files seldom get past the file's structure.
GgufVocabulary extended(std::string_view input) {
  const bool llama = !input.empty() && input[0] % 2 != 0;
  const Arrays a = llama ? scored() : byte_level();
  GgufVocabulary v{.model = llama ? "llama" : "gpt2", .pre = "gpt-2", .tokens = a.tokens, .types = a.types};
  v.merges = a.merges;
  v.scores = a.scores;
  if (llama) v.unknown = 0;
  v.add_space_prefix = !input.empty() && input[0] & 2;
  for (size_t at = 1; at < input.size();) {
    const std::string_view line = input.substr(at, input.find('\n', at) - at);
    at += line.size() + 1;
    if (line.size() < 3) continue;
    const std::string text(line.substr(2));
    if (!llama && text.find(' ') != text.npos) {
      v.merges.push_back(text);
      continue;
    }
    v.tokens.push_back(text);
    v.types.push_back(line[0] & 7);
    if (llama) v.scores.push_back(float(line[1]));
  }
  return v;
}

template <class Load>
void check_if_accepted(Load&& load) {
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer = load();
  } catch (const Error&) {  // the edge: an Error is a right answer to bad input
    return;
  }
  check(*tokenizer);
  try {
    check_written(*tokenizer);
  } catch (const Error&) {  // the edge: not everything that is read can be written
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  file.put(data, size);
  check_if_accepted([] { return load_gguf_tokenizer(GgufFile::open(file.path)); });
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_if_accepted([&] { return tokenizer_of(extended(input), "input"); });
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = wrong_types();
  for (const char* pre : {"gpt-2", "llama-bpe", "smollm", "qwen2", "none"}) seeds.push_back(gpt2(pre, byte_level()));
  GgufMetadataBuilder prefix = metadata_of("llama", "default", scored());
  prefix.put("tokenizer.ggml.add_space_prefix", false);
  prefix.put("tokenizer.ggml.unknown_token_id", uint32_t{0});
  GgufMetadataBuilder far = metadata_of("llama", "default", scored());
  far.put("tokenizer.ggml.eos_token_id", uint32_t{0xFFFFFFFF});
  seeds.insert(seeds.end(), {file_of(prefix), file_of(far), llama(scored())});
  // Merges of absent tokens and of no two; scores that are missing, too few, no numbers; types that are none.
  for (const char* merge : {"a nothere", "a", "a b c", " ", "\xFF a"})
    seeds.push_back(gpt2("gpt-2", changed(byte_level(), [&](Arrays& a) { a.merges.push_back(merge); })));
  seeds.push_back(gpt2("gpt-2", changed(byte_level(), [](Arrays& a) { a.merges.clear(); })));
  seeds.push_back(gpt2("gpt-2", changed(byte_level(), [](Arrays& a) { a.tokens[7] = a.tokens[8]; })));
  seeds.push_back(llama(changed(scored(), [](Arrays& a) { a.scores.clear(); })));
  seeds.push_back(llama(changed(scored(), [](Arrays& a) { a.scores.pop_back(); })));
  seeds.push_back(llama(changed(scored(), [](Arrays& a) { a.scores[5] = std::numeric_limits<float>::quiet_NaN(); })));
  for (const int32_t type : {0, 7, -1, std::numeric_limits<int32_t>::max()})
    seeds.push_back(llama(changed(scored(), [&](Arrays& a) { a.types[5] = type; })));
  seeds.push_back(llama(changed(scored(), [](Arrays& a) { a.types.pop_back(); })));
  // For extended(): types 1 and 4, scores of letters.
  for (const char* lines : {"1\n1Gaab\n1Hbb\n4A    \n4Bbab\n1Z\xE2\x96\x81\xE2\x96\x81\n",
                            "3\n1A\xE2\x96\x81" "a\n1Bbaab\n", "0\n1Aaab\n1Aa ab\n1Abb\n1Ab b\n4Abab\n",
                            "2\n1A\xC4\xA0\xC4\xA0\n1A\xC4\xA0 \xC4\xA0\n"})
    seeds.push_back(lines);
  return seeds;
}
