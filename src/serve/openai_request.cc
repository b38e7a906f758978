#include "serve/openai_request.h"

#include "base/json_value.h"
#include "serve/api_error.h"
#include "serve/chat_messages.h"
#include "serve/generation_fields.h"
#include "serve/request_fields.h"

namespace espalier {
namespace {

constexpr size_t kMaxExtraFiles = 1024;

/// "logprobs": true with "top_logprobs": k.
std::optional<int64_t> read_chat_logprobs(const RequestFields& fields) {
  const std::optional<int64_t> top = fields.integer("top_logprobs", 0, kMaxRequestTopLogprobs);
  const bool wanted = fields.boolean("logprobs").value_or(false);
  if (top.value_or(0) > 0 && !wanted) fields.fail("top_logprobs", "'logprobs' to be true beside it");
  return wanted ? std::optional(top.value_or(0)) : std::nullopt;
}

/// "logprobs": k. A bool, which some clients send, means what it means for chats.
std::optional<int64_t> read_completion_logprobs(const RequestFields& fields) {
  const OrderedJson* value = fields.find("logprobs");
  if (value && value->is_boolean()) return read_chat_logprobs(fields);
  return fields.integer("logprobs", 0, kMaxRequestTopLogprobs);
}

}  // namespace

ChatRequest parse_chat_request(std::string_view body) {
  const OrderedJson json = parse_request_json(body);
  const RequestFields fields(json);
  ChatRequest request;
  request.generation = read_generation(fields);
  request.generation.top_logprobs = read_chat_logprobs(fields);
  read_conversation(fields, request);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  if (fields.object("chat_template_kwargs"))
    request.template_variables = std::make_shared<const OrderedJson>(*fields.find("chat_template_kwargs"));
  return request;
}

CompletionRequest parse_completion_request(std::string_view body) {
  const OrderedJson json = parse_request_json(body);
  const RequestFields fields(json);
  CompletionRequest request;
  request.generation = read_generation(fields);
  request.generation.top_logprobs = read_completion_logprobs(fields);
  request.prompts = read_prompts(fields, "prompt");
  request.suffix = fields.string("suffix").value_or("");
  request.echo = fields.boolean("echo").value_or(false);
  if (const auto best_of = fields.integer("best_of", 1, kMaxChoices); best_of && *best_of > request.generation.n)
    fields.fail("best_of", "as many as 'n': answers are not ranked here");
  if (int64_t(request.prompts.size()) * request.generation.n > kMaxChoices * 16)
    fields.fail("prompt", fmt::format("at most {} answers to all prompts together", kMaxChoices * 16));
  return request;
}

InfillRequest parse_infill_request(std::string_view body) {
  const OrderedJson json = parse_request_json(body);
  const RequestFields fields(json);
  InfillRequest request;
  request.generation = read_generation(fields);
  request.prefix = fields.required_string("input_prefix");
  request.suffix = fields.required_string("input_suffix");
  request.prompt = fields.string("prompt").value_or("");
  fields.each("input_extra", kMaxExtraFiles, [&](const OrderedJson& element, const std::string& path) {
    const RequestFields file(element, path);
    request.extra.emplace_back(file.string("filename").value_or(""), file.required_string("text"));
  });
  return request;
}

EmbeddingsRequest parse_embeddings_request(std::string_view body) {
  const OrderedJson json = parse_request_json(body);
  const RequestFields fields(json);
  EmbeddingsRequest request;
  request.model = fields.string("model").value_or("");
  // llama.cpp's clients call the field "content".
  request.inputs = read_prompts(fields, fields.find("content") && !fields.find("input") ? "content" : "input");
  for (const Prompt& input : request.inputs)
    if (std::holds_alternative<std::string>(input) && std::get<std::string>(input).empty())
      fields.fail("input", "text that is not empty");
  const std::string encoding = fields.string("encoding_format").value_or("float");
  if (encoding != "float" && encoding != "base64") fields.fail("encoding_format", "'float' or 'base64'");
  request.base64 = encoding == "base64";
  request.dimensions = fields.integer("dimensions", 1, 1 << 20);
  return request;
}

TokenizeRequest parse_tokenize_request(std::string_view body) {
  const OrderedJson json = parse_request_json(body);
  const RequestFields fields(json);
  return {.content = fields.required_string("content"),
          .add_special = fields.boolean("add_special").value_or(false),
          .parse_special = fields.boolean("parse_special").value_or(true),
          .with_pieces = fields.boolean("with_pieces").value_or(false)};
}

std::vector<int32_t> parse_detokenize_request(std::string_view body) {
  const OrderedJson json = parse_request_json(body);
  const RequestFields fields(json);
  const OrderedJson* tokens = fields.find("tokens");
  if (!tokens || !tokens->is_array()) fields.fail("tokens", "an array of token ids");
  return read_ids(*tokens, "tokens");
}

}  // namespace espalier
