#include "engine/turn_end.h"

#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json_value.h"

namespace espalier {
namespace {

void add_configured(const std::string& folder, std::set<int32_t>& ids) {
  const std::string path = folder + "/generation_config.json";
  if (!std::filesystem::is_regular_file(path)) return;
  const Json config = read_json_file(path);
  if (!config.is_object() || !config.contains("eos_token_id")) return;
  const Json& eos = config["eos_token_id"];
  for (const Json& id : eos.is_array() ? eos : Json::array({eos}))
    if (id.is_number_integer()) ids.insert(id.get<int32_t>());
}

/// What the template writes behind an assistant's message. Nothing where it does not take such a conversation.
std::optional<std::string> behind_an_answer(const ChatTemplate& chat) {
  const std::string answer = "espalier-asks-what-follows";
  const OrderedJson messages = {{{"role", "user"}, {"content", "hello"}},
                                {{"role", "assistant"}, {"content", answer}}};
  try {
    const std::string text = chat.render({.messages = &messages, .add_generation_prompt = false});
    const size_t at = text.rfind(answer);
    return at == std::string::npos ? std::nullopt : std::optional(text.substr(at + answer.size()));
  } catch (const Error&) {  // the edge: the question is ours, a template that refuses it is no fault of the user's
    return std::nullopt;
  }
}

}  // namespace

std::vector<int32_t> turn_end_ids(const std::string& folder, const Tokenizer& tokenizer, const ChatTemplate& chat) {
  std::set<int32_t> ids;
  add_configured(folder, ids);
  if (tokenizer.eos()) ids.insert(*tokenizer.eos());
  if (const auto text = behind_an_answer(chat)) {
    for (const int32_t id : tokenizer.encode(*text)) {
      if (!tokenizer.is_special(id)) continue;
      ids.insert(id);
      break;
    }
  }
  for (const char* name : {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|end_of_turn|>",
                           "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"})
    if (const auto id = tokenizer.id_of(name); id && chat.source().find(name) != std::string::npos) ids.insert(*id);
  return {ids.begin(), ids.end()};
}

}  // namespace espalier
