#include "engine/prompt.h"

namespace espalier {

std::optional<int32_t> leading_bos(const Tokenizer& tokenizer) {
  const std::vector<int32_t> around = tokenizer.encode("", {.add_special = true});
  if (tokenizer.bos() && !around.empty() && around[0] == *tokenizer.bos()) return tokenizer.bos();
  return std::nullopt;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  if (const auto bos = leading_bos(tokenizer)) ids.push_back(*bos);
  tokenizer.encode(text, ids);
  if (ids.empty())
    if (const auto start = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos()) ids.push_back(*start);
  return ids;
}

}  // namespace espalier
