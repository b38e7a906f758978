#include "cli/render_chats.h"

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "cli/open_model.h"

namespace espalier {
namespace {

std::string render_one(const ChatTemplate& chat, const std::string& line, const std::string& what) {
  OrderedJson request = parse_ordered_json(line, what);
  if (!request.is_object())
    throw error(Code::kUsage, "{} is {}; expected an object with messages", what, request.type_name());
  const auto take = [&](const char* key) {
    OrderedJson value;
    if (request.contains(key)) value = request[key];
    request.erase(key);
    return value;
  };
  const OrderedJson messages = take("messages"), tools = take("tools"), documents = take("documents");
  const OrderedJson prompt = take("add_generation_prompt");
  return chat.render({.messages = &messages,
                      .tools = tools.is_null() ? nullptr : &tools,
                      .documents = documents.is_null() ? nullptr : &documents,
                      .add_generation_prompt = !prompt.is_boolean() || prompt.get<bool>(),
                      .variables = &request});
}

}  // namespace

ChatTemplate open_chat_template(const std::string& path) {
  return ChatTemplate::parse(read_file(path, size_t{512} << 10), path);
}

int render_chats(Terminal& terminal, const ChatTemplate& chat) {
  std::istringstream lines(read_stdin());
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    OrderedJson object;
    try {
      object = {{"text", render_one(chat, line, fmt::format("line {} of standard input", number))}};
    } catch (const Error& e) {  // the edge: one line's conversation
      object = {{"error", e.what()}, {"code", code_info(e.code()).name}};
    }
    terminal.write(object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
  }
  return 0;
}

}  // namespace espalier
