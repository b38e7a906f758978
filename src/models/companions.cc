#include "models/companions.h"

#include "base/file.h"
#include "formats/gguf.h"
#include "models/gguf_tokenizer.h"

namespace espalier {
namespace {

// The files that the Hugging Face libraries read with a tokenizer, a template or generate().
constexpr const char* kFiles[] = {"tokenizer.json",     "tokenizer_config.json", "special_tokens_map.json",
                                  "added_tokens.json",  "vocab.json",            "merges.txt",
                                  "tokenizer.model",    "chat_template.jinja",   "chat_template.json",
                                  "generation_config.json"};

}  // namespace

Companions Companions::of(const std::string& path) {
  if (!is_gguf(path)) return {.folder = path};
  const GgufFile file = GgufFile::open(path);
  Companions found{.chat_template = gguf_chat_template(file)};
  if (file.metadata().find("tokenizer.ggml.tokens")) found.tokenizer = load_gguf_tokenizer(file);
  return found;
}

std::optional<Tokenizer> Companions::load_tokenizer() const {
  if (tokenizer || folder.empty() || !tokenizer_file(folder)) return tokenizer;
  return Tokenizer::load(folder);
}

void Companions::save(const std::string& to) const {
  for (const char* name : kFiles)
    if (!folder.empty() && is_file(folder + "/" + name)) copy_file(folder + "/" + name, to + "/" + name);
  if (tokenizer && is_file(to + "/tokenizer_config.json"))  // which says more than save() would
    write_file_atomic(to + "/tokenizer.json", tokenizer->to_json());
  else if (tokenizer)
    tokenizer->save(to);
  if (chat_template) write_file_atomic(to + "/chat_template.jinja", *chat_template);
}

}  // namespace espalier
