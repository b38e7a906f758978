#include "text/chat_template.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTemplate = size_t{512} << 10;

/// Names and texts of the templates that a folder has.
using Sources = std::vector<std::pair<std::string, std::string>>;

Json read_if_there(const std::string& path) {
  return fs::is_regular_file(path) ? read_json_file(path) : Json::object();
}

Sources sources_in(const Json& json, const std::string& path) {
  const auto found = json.is_object() ? json.find("chat_template") : json.end();
  if (found == json.end() || found->is_null()) return {};
  if (found->is_string()) return {{"default", found->get<std::string>()}};
  Sources sources;
  if (found->is_object())
    for (const auto& [name, text] : found->items())
      if (text.is_string()) sources.emplace_back(name, text.get<std::string>());
  if (found->is_array())
    for (const Json& entry : *found)
      sources.emplace_back(json_get<std::string>(entry, "name", path), json_get<std::string>(entry, "template", path));
  if (sources.empty())
    throw error(Code::kBadData, "reading {}: \"chat_template\" is {}; expected a string or a list of named templates",
                path, found->type_name());
  return sources;
}

Sources sources_of(const std::string& folder) {
  Sources sources;
  if (const std::string path = folder + "/chat_template.jinja"; fs::is_regular_file(path))
    sources.emplace_back("default", read_file(path, kMaxTemplate));
  if (const std::string more = folder + "/additional_chat_templates"; fs::is_directory(more))
    for (const auto& entry : fs::directory_iterator(more))
      if (entry.path().extension() == ".jinja")
        sources.emplace_back(entry.path().stem().string(), read_file(entry.path().string(), kMaxTemplate));
  for (const char* name : {"/tokenizer_config.json", "/chat_template.json"})
    if (sources.empty()) sources = sources_in(read_if_there(folder + name), folder + name);
  return sources;
}

SpecialTokens special_tokens_of(const std::string& folder) {
  SpecialTokens tokens;
  const Json config = read_if_there(folder + "/tokenizer_config.json");
  const Json map = read_if_there(folder + "/special_tokens_map.json");
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    for (const Json* json : {&config, &map}) {
      if (!json->is_object() || !json->contains(name)) continue;
      const Json& value = (*json)[name];
      // Written as a text, or as an added token with its options.
      const Json& text = value.is_object() && value.contains("content") ? value["content"] : value;
      if (!text.is_string()) continue;
      tokens.emplace_back(name, text.get<std::string>());
      break;
    }
  return tokens;
}

/// What transformers makes of a message: no null values, and reasoning under each name that some template reads.
OrderedJson normal_message(const OrderedJson& message) {
  if (!message.is_object())
    throw error(Code::kUsage, "a message of the conversation is {}; expected an object with role and content",
                message.type_name());
  OrderedJson normal = OrderedJson::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) normal[key] = value;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!normal.contains(name)) continue;
    const OrderedJson reasoning = normal[name];
    OrderedJson with = OrderedJson::object();
    with["thinking"] = reasoning;
    for (const auto& [key, value] : normal.items()) with[key] = value;
    with["reasoning_content"] = reasoning;
    return with;
  }
  return normal;
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& what, SpecialTokens tokens) {
  ChatTemplate made;
  made.variants_.push_back({"default", std::string(source), JinjaTemplate::parse(source, what)});
  made.tokens_ = std::move(tokens);
  return made;
}

std::optional<ChatTemplate> ChatTemplate::load(const std::string& folder) {
  Sources sources = sources_of(folder);
  if (sources.empty()) return std::nullopt;
  const auto named = [&](const char* name) {
    return std::find_if(sources.begin(), sources.end(), [&](const auto& s) { return s.first == name; });
  };
  const auto main = named("default");
  if (main == sources.end())
    throw error(Code::kBadData, "reading the chat templates of {}: none is named 'default'; the first is '{}'", folder,
                sources[0].first);
  ChatTemplate made = parse(main->second, "the chat template of " + folder, special_tokens_of(folder));
  if (const auto tools = named("tool_use"); tools != sources.end())
    made.variants_.push_back({"tool_use", tools->second,
                              JinjaTemplate::parse(tools->second, "the chat template tool_use of " + folder)});
  return made;
}

std::string ChatTemplate::render(const ChatInput& input, const JinjaOptions& options) const {
  ESP_CHECK(input.messages, "a conversation needs messages");
  if (!input.messages->is_array() || input.messages->empty())
    throw Error(Code::kUsage, "the conversation is empty; expected a list of one message or more");
  OrderedJson variables = OrderedJson::object();
  for (const auto& [name, text] : tokens_) variables[name] = text;
  if (input.variables)
    for (const auto& [name, value] : input.variables->items()) variables[name] = value;
  OrderedJson messages = OrderedJson::array();
  for (const OrderedJson& message : *input.messages) messages.push_back(normal_message(message));
  variables["messages"] = std::move(messages);
  variables["tools"] = input.tools ? *input.tools : OrderedJson();
  variables["documents"] = input.documents ? *input.documents : OrderedJson();
  variables["add_generation_prompt"] = input.add_generation_prompt;
  const bool with_tools = input.tools && !input.tools->is_null();
  return variants_[with_tools ? variants_.size() - 1 : 0].program.render(variables, options);
}

}  // namespace espalier
