// `espalier chat --render`: shows what a model would read.
#pragma once
#include <string>

#include "cli/terminal.h"
#include "text/chat_template.h"

namespace espalier {

/// A file with a Jinja template.
ChatTemplate open_chat_template(const std::string& path);

/// Reads a JSON object a line from standard input: "messages", "tools", "documents", "add_generation_prompt" (true),
/// and whatever else the template takes. Writes {"text": ...} or {"error": ..., "code": ...} a line. Returns the exit
/// status: 0, also where a template refused.
int render_chats(Terminal& terminal, const ChatTemplate& chat);

}  // namespace espalier
