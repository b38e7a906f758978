// The requests of the HTTP API: any bytes give a request whose values are in their ranges, or an ApiError of status
// 400; and what a model says, split into reasoning, text and tool calls, does not depend on how it is cut.
#include <cmath>
#include <cstdlib>

#include "base/json.h"
#include "base/json_value.h"
#include "fuzz.h"
#include "serve/api_error.h"
#include "serve/openai_request.h"
#include "serve/think_splitter.h"
#include "serve/tool_calls.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const espalier::GenerationRequest& g) {
  const espalier::SamplingRequest& s = g.sampling;
  for (const auto& value : {s.temperature, s.top_p, s.min_p, s.typical_p, s.repeat_penalty, s.dry_base})
    require(!value || (*value >= 0 && *value <= 100));
  require(!s.top_k || *s.top_k >= 0);
  require(!g.max_tokens || *g.max_tokens >= 0);
  require(!g.top_logprobs || (*g.top_logprobs >= 0 && *g.top_logprobs <= espalier::kMaxRequestTopLogprobs));
  require(g.n >= 1 && g.n <= espalier::kMaxChoices);
  for (const auto& [id, bias] : s.logit_bias) require(id >= 0 && !std::isnan(bias));
  for (const std::string& stop : g.stop) require(!stop.empty());
}

template <class F>
void attempt(F&& read) {
  try {
    read();
  } catch (const espalier::ApiError& e) {  // the edge: an error is a right answer to bad input
    require(e.status() == 400);
    require(espalier::Json::parse(espalier::error_response(e).body).contains("error"));
  }
}

std::string thought(std::string_view text, size_t step, bool inside) {
  espalier::ThinkSplitter splitter(inside);
  espalier::ThinkPiece all;
  const auto add = [&](const espalier::ThinkPiece& piece) {
    all.reasoning += piece.reasoning;
    all.content += piece.content;
  };
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) add(splitter.push(text.substr(0, step)));
  add(splitter.finish());
  return all.reasoning + "|" + all.content;
}

std::string called(std::string_view text, size_t step, espalier::ToolFormat format) {
  const std::string_view whole = text;
  espalier::ToolCallSplitter splitter(format, {"f", "g"});
  std::string content, calls;
  const auto add = [&](const espalier::ToolPiece& piece) {
    content += piece.content;
    for (const espalier::FoundCall& call : piece.calls) calls += call.name + call.arguments + ";";
  };
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) add(splitter.push(text.substr(0, step)));
  add(splitter.finish());
  require(!calls.empty() || content == whole);
  return content + "|" + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    const espalier::ChatRequest request = espalier::parse_chat_request(text);
    check(request.generation);
    require(!request.messages->empty());
  });
  attempt([&] {
    const espalier::CompletionRequest request = espalier::parse_completion_request(text);
    check(request.generation);
    require(!request.prompts.empty());
  });
  attempt([&] { check(espalier::parse_infill_request(text).generation); });
  attempt([&] { require(!espalier::parse_embeddings_request(text).inputs.empty()); });
  attempt([&] { espalier::parse_tokenize_request(text); });
  attempt([&] {
    for (const int32_t id : espalier::parse_detokenize_request(text)) require(id >= 0);
  });
  const std::string_view some = text.substr(0, 2000);
  for (const bool inside : {false, true}) require(thought(some, some.size() + 1, inside) == thought(some, 1, inside));
  using Format = espalier::ToolFormat;
  for (const Format format : {Format::kHermes, Format::kLlama3, Format::kMistral, Format::kBare})
    require(called(some, some.size() + 1, format) == called(some, 1, format));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {R"({"messages": [{"role": "system", "content": "a"},
{"role": "user", "content": [{"type": "text", "text": "b"}]},
{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
{"role": "tool", "tool_call_id": "c", "content": "1"}], "temperature": 0.5, "top_k": 4, "logit_bias": {"5": -1.5},
"stop": ["x"], "max_tokens": 5, "n": 2, "logprobs": true, "top_logprobs": 2, "stream": true})",
          R"({"messages": [{"role": "user", "content": "a"}], "tool_choice": "required",
"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}})",
          R"({"prompt": ["a", [1, 2]], "suffix": "b", "echo": true, "logprobs": 3, "logit_bias": [[1, false]]})",
          R"({"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "f", "text": "t"}]})",
          R"({"input": ["a", "b"], "encoding_format": "base64", "content": "x", "tokens": [1, 2, 3]})",
          "<think>\nhm\n</think>\nyes <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}\n</tool_call>",
          "hm</think> {\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\"}",
          "```json\n{\"name\": \"f\", \"arguments\": {\"a\": [\"`\"]}}\n```\n[{\"name\": \"g\"}]",
          "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}] [TOOL_CALLS]g[ARGS]{\"a\": 1}"};
}
