#include "models/gguf_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/gguf_tokenizer.h"

namespace espalier {

Tokenizer load_gguf_tokenizer(const GgufFile& file) {
  const GgufMetadata& m = file.metadata();
  const auto tokens = m.texts("tokenizer.ggml.tokens");
  if (!tokens)
    throw error(Code::kNotFound, "reading {}: it has no vocabulary (metadata 'tokenizer.ggml.tokens'); give a model "
                "that has one", file.path());
  GgufVocabulary v{.model = std::string(m.need_text("tokenizer.ggml.model"))};
  v.pre = m.text("tokenizer.ggml.pre").value_or("default");
  v.tokens.assign(tokens->begin(), tokens->end());
  for (const int64_t type : m.integers("tokenizer.ggml.token_type").value_or(std::vector<int64_t>{}))
    v.types.push_back(int32_t(std::clamp<int64_t>(type, -1, 99)));  // what it is not is refused below
  const bool llama = v.model == "llama";
  if (llama) {
    const std::vector<double> scores = m.numbers("tokenizer.ggml.scores").value_or(std::vector<double>{});
    v.scores.assign(scores.begin(), scores.end());
    v.add_space_prefix = m.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  } else if (const auto merges = m.texts("tokenizer.ggml.merges")) {
    v.merges.assign(merges->begin(), merges->end());
  } else if (v.model == "gpt2") {
    throw error(Code::kBadData, "reading {}: a vocabulary of kind gpt2 without metadata 'tokenizer.ggml.merges'",
                file.path());
  }
  v.bos = m.integer("tokenizer.ggml.bos_token_id");
  v.eos = m.integer("tokenizer.ggml.eos_token_id");
  v.pad = m.integer("tokenizer.ggml.padding_token_id");
  v.unknown = m.integer("tokenizer.ggml.unknown_token_id");
  // Files may leave it out; llama.cpp then adds BOS for these vocabularies and for no other that we read.
  v.add_bos = m.boolean("tokenizer.ggml.add_bos_token").value_or(llama || v.pre == "llama-bpe");
  v.add_eos = m.boolean("tokenizer.ggml.add_eos_token").value_or(false);
  return tokenizer_of(v, file.path());
}

Tokenizer load_tokenizer(const std::string& path) {
  return is_gguf(path) ? load_gguf_tokenizer(GgufFile::open(path)) : Tokenizer::load(path);
}

std::optional<std::string> gguf_chat_template(const GgufFile& file) {
  const auto text = file.metadata().text("tokenizer.chat_template");
  return text ? std::optional(std::string(*text)) : std::nullopt;
}

std::optional<ChatTemplate> load_chat_template(const std::string& path) {
  if (!is_gguf(path)) return ChatTemplate::load(path);
  const GgufFile file = GgufFile::open(path);
  const std::optional<std::string> source = gguf_chat_template(file);
  if (!source) return std::nullopt;
  const GgufMetadata& m = file.metadata();
  const auto tokens = m.texts("tokenizer.ggml.tokens");
  SpecialTokens special;
  for (const auto& [name, key] : {std::pair{"bos_token", "tokenizer.ggml.bos_token_id"},
                                  std::pair{"eos_token", "tokenizer.ggml.eos_token_id"},
                                  std::pair{"unk_token", "tokenizer.ggml.unknown_token_id"},
                                  std::pair{"pad_token", "tokenizer.ggml.padding_token_id"}}) {
    const std::optional<int64_t> id = m.integer(key);
    if (id && tokens && *id >= 0 && size_t(*id) < tokens->size())
      special.emplace_back(name, (*tokens)[size_t(*id)]);
  }
  return ChatTemplate::parse(*source, "the chat template of " + path, std::move(special));
}

void put_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size, const std::string& path,
                   GgufMetadataBuilder& metadata) {
  const GgufVocabulary v = vocabulary_of(tokenizer, vocab_size, path);
  metadata.put("tokenizer.ggml.model", v.model);
  const bool llama = v.model == "llama";
  metadata.put("tokenizer.ggml.pre", llama ? "default" : v.pre);
  metadata.put("tokenizer.ggml.tokens", v.tokens);
  metadata.put("tokenizer.ggml.token_type", v.types);
  if (llama) {
    metadata.put("tokenizer.ggml.scores", v.scores);
    metadata.put("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
  } else {
    metadata.put("tokenizer.ggml.merges", v.merges);
  }
  if (v.bos) metadata.put("tokenizer.ggml.bos_token_id", uint32_t(*v.bos));
  if (v.eos) metadata.put("tokenizer.ggml.eos_token_id", uint32_t(*v.eos));
  if (v.unknown) metadata.put("tokenizer.ggml.unknown_token_id", uint32_t(*v.unknown));
  if (v.pad) metadata.put("tokenizer.ggml.padding_token_id", uint32_t(*v.pad));
  metadata.put("tokenizer.ggml.add_bos_token", v.add_bos);
  metadata.put("tokenizer.ggml.add_eos_token", v.add_eos);
}

}  // namespace espalier
