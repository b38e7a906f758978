// The conversation and the tools of a chat request: checked, and turned into what chat templates are written for.
#pragma once
#include "serve/openai_request.h"
#include "serve/request_fields.h"

namespace espalier {

/// Sets messages, tools, tool_choice and tool_name.
void read_conversation(const RequestFields& fields, ChatRequest& request);

}  // namespace espalier
