// From what a request asks to what the generator is given.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "serve/openai_request.h"
#include "serve/served_model.h"

namespace espalier {

/// What requests leave out.
struct GenerationDefaults {
  SamplerConfig sampler;
  bool slide = false;  ///< at the end of the context (engine/generator.h)
};

/// One request of the generator for each choice. What the request leaves out is as `defaults` say; a request without a
/// seed gets one of chance. Throws ApiError 400 with code "context_length_exceeded" and the numbers where the prompt
/// leaves no room in the context; as Grammars::find.
std::vector<GenerateRequest> requests_for(const GenerationRequest& asked, std::vector<int32_t> prompt,
                                          const ModelFacts& model, const GenerationDefaults& defaults);

/// How calls are looked for in the answer; nothing where there are no tools, or where a form is asked for that has no
/// calls. Where the request must call a tool, the form of its answer becomes that of a call, and any other is dropped.
std::optional<ToolReading> expect_tool_calls(ChatRequest& asked, const ModelFacts& model);

}  // namespace espalier
