#include "serve/chat_messages.h"

#include <algorithm>

#include "base/json_value.h"
#include "serve/api_error.h"

namespace espalier {
namespace {

constexpr size_t kMaxMessages = 16384, kMaxParts = 4096, kMaxTools = 1024, kMaxCalls = 1024;

bool is_function_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

/// Text parts joined by line feeds, as other servers join them: many templates know strings alone.
std::string join_parts(const RequestFields& message) {
  std::string text;
  bool first = true;
  message.each("content", kMaxParts, [&](const OrderedJson& element, const std::string& path) {
    const RequestFields part(element, path);
    const std::string type = part.required_string("type");
    if (type != "text" && type != "refusal") part.fail("type", "'text': this server reads text alone");
    if (!std::exchange(first, false)) text += '\n';
    text += part.required_string(type.c_str());
  });
  return text;
}

/// Templates write arguments as JSON themselves and want them as values; OpenAI's API carries them as a string.
OrderedJson arguments_value(const RequestFields& function) {
  const OrderedJson* arguments = function.find("arguments");
  if (!arguments) return OrderedJson::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) function.fail("arguments", "JSON in a string");
  const std::string text = arguments->get<std::string>();
  if (text.empty()) return OrderedJson::object();
  try {
    OrderedJson parsed = parse_ordered_json(text, function.path("arguments"));
    if (parsed.is_object()) return parsed;
  } catch (const Error&) {  // the edge: what a model wrote may be no JSON; it then stays the text that it is
  }
  return *arguments;
}

OrderedJson read_tool_call(const OrderedJson& element, const std::string& path) {
  const RequestFields call(element, path);
  const std::optional<RequestFields> function = call.object("function");
  if (!function) call.fail("function", "an object with 'name' and 'arguments'");
  OrderedJson known = {{"type", "function"},
                       {"function", OrderedJson{{"name", function->required_string("name")},
                                                {"arguments", arguments_value(*function)}}}};
  if (auto id = call.string("id")) known["id"] = *id;
  return known;
}

OrderedJson read_message(const OrderedJson& element, const std::string& path) {
  const RequestFields fields(element, path);
  std::string role = fields.required_string("role");
  if (role == "developer") role = "system";
  const bool assistant = role == "assistant", tool = role == "tool";
  if (!assistant && !tool && role != "system" && role != "user")
    fields.fail("role", "'system', 'developer', 'user', 'assistant' or 'tool'");
  OrderedJson message = {{"role", role}};
  OrderedJson calls = OrderedJson::array();
  if (assistant)
    fields.each("tool_calls", kMaxCalls, [&](const OrderedJson& call, const std::string& where) {
      calls.push_back(read_tool_call(call, where));
    });
  const OrderedJson* content = fields.find("content");
  if (!content && (!assistant || calls.empty())) fields.fail("content", "a string or an array of text parts");
  if (content && !content->is_string() && !content->is_array())
    fields.fail("content", "a string or an array of text parts");
  message["content"] = !content ? "" : content->is_string() ? content->get<std::string>() : join_parts(fields);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  for (const char* name : {"name", "tool_call_id", "reasoning_content"})
    if (auto value = fields.string(name)) message[name] = *value;
  return message;
}

std::shared_ptr<const OrderedJson> read_messages(const RequestFields& fields) {
  auto messages = std::make_shared<OrderedJson>(OrderedJson::array());
  fields.each("messages", kMaxMessages, [&](const OrderedJson& element, const std::string& path) {
    messages->push_back(read_message(element, path));
  });
  if (messages->empty()) fields.fail("messages", "an array of at least one message");
  return messages;
}

std::shared_ptr<const OrderedJson> read_tools(const RequestFields& fields) {
  auto tools = std::make_shared<OrderedJson>(OrderedJson::array());
  fields.each("tools", kMaxTools, [&](const OrderedJson& element, const std::string& path) {
    const RequestFields tool(element, path);
    if (tool.required_string("type") != "function") tool.fail("type", "'function'");
    const std::optional<RequestFields> function = tool.object("function");
    if (!function) tool.fail("function", "an object with 'name' and 'parameters'");
    if (!is_function_name(function->required_string("name")))
      function->fail("name", "1 to 64 letters, digits, '_', '-' or '.'");
    function->string("description");
    function->object("parameters");
    tools->push_back(element);
  });
  return tools->empty() ? nullptr : tools;
}

bool has_tool(const OrderedJson& tools, const std::string& name) {
  return std::ranges::any_of(tools, [&](const OrderedJson& tool) { return tool["function"]["name"] == name; });
}

void read_tool_choice(const RequestFields& fields, ChatRequest& request) {
  using Choice = ChatRequest::ToolChoice;
  const char* expected = "'none', 'auto', 'required', or {\"type\": \"function\", \"function\": {\"name\": ...}}";
  const OrderedJson* choice = fields.find("tool_choice");
  if (!choice || *choice == "auto") return;
  if (*choice == "none") return request.tools.reset();
  if (*choice != "required" && !choice->is_object()) fields.fail("tool_choice", expected);
  if (!request.tools) fields.fail("tools", "tools, because 'tool_choice' asks for one");
  if (*choice == "required") {
    request.tool_choice = Choice::kRequired;
    return;
  }
  const std::optional<RequestFields> function = RequestFields(*choice, fields.path("tool_choice")).object("function");
  if (!function) fields.fail("tool_choice", expected);
  request.tool_choice = Choice::kFunction;
  request.tool_name = function->required_string("name");
  if (!has_tool(*request.tools, request.tool_name)) function->fail("name", "the name of one of 'tools'");
}

}  // namespace

void read_conversation(const RequestFields& fields, ChatRequest& request) {
  request.messages = read_messages(fields);
  request.tools = read_tools(fields);
  for (const char* old : {"functions", "function_call"})
    if (fields.find(old)) fields.fail(old, "'tools' and 'tool_choice', which replaced it");
  read_tool_choice(fields, request);
}

}  // namespace espalier
