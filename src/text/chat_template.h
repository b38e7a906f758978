// Chat templates: from a conversation to the text that a model was trained to answer. The template is the model's own
// (Jinja, text/jinja.h); what is rendered is what transformers' apply_chat_template(tokenize=False) gives.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/jinja.h"

namespace espalier {

/// A conversation. Only `messages` is needed; null pointers stand for what is absent.
struct ChatInput {
  /// [{"role": "system" | "user" | "assistant" | "tool", "content": text or a list of parts, "tool_calls": ...}]
  const OrderedJson* messages = nullptr;
  const OrderedJson* tools = nullptr;      ///< [{"type": "function", "function": {"name", "parameters", ...}}]
  const OrderedJson* documents = nullptr;  ///< [{"title", "text"}]
  bool add_generation_prompt = true;       ///< end with what opens the assistant's answer
  const OrderedJson* variables = nullptr;  ///< further ones (enable_thinking, ...); they replace the special tokens'
};

/// Names such as "bos_token" with the tokens' texts; a template sees them as variables.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

/// Cheap to copy.
class ChatTemplate {
 public:
  /// From a template's text; `what` names it in errors.
  static ChatTemplate parse(std::string_view source, const std::string& what, SpecialTokens tokens = {});
  /// The template of a Hugging Face folder: chat_template.jinja with additional_chat_templates/*.jinja, otherwise
  /// "chat_template" of tokenizer_config.json (a text, or a list of named ones) or of chat_template.json; the special
  /// tokens from tokenizer_config.json or special_tokens_map.json. Nothing where there is none. Throws Error kBadData,
  /// kUnsupported.
  static std::optional<ChatTemplate> load(const std::string& folder);

  /// The prompt. As transformers does, keys of messages that are null are dropped first, reasoning is given under all
  /// of its names, and tools choose the template "tool_use" where there is one. Throws Error kUsage where there is no
  /// message, one is no object, or the template refuses the conversation (raise_exception); otherwise as
  /// JinjaTemplate::render.
  std::string render(const ChatInput& input, const JinjaOptions& options = {}) const;

  /// The text of the template that is used without tools.
  const std::string& source() const { return variants_[0].source; }

 private:
  struct Variant {
    std::string name, source;
    JinjaTemplate program;
  };
  std::vector<Variant> variants_;  // "default" first
  SpecialTokens tokens_;
};

}  // namespace espalier
