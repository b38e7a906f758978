#include "serve/openai_request.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json_value.h"
#include "serve/api_error.h"

namespace espalier {
namespace {

constexpr const char* kHello = R"("messages": [{"role": "user", "content": "hello"}])";

std::string chat_with(const std::string& more) { return fmt::format("{{{}, {}}}", kHello, more); }

/// "PARAM: message" of the error that a body gives, or "no error".
template <class Parse>
std::string complaint(Parse parse, const std::string& body) {
  try {
    parse(body);
  } catch (const ApiError& e) {  // the edge: the test wants it
    EXPECT_EQ(e.status(), 400) << body;
    return e.param() + ": " + e.what();
  }
  return "no error";
}

std::string chat_complaint(const std::string& more) { return complaint(parse_chat_request, chat_with(more)); }

TEST(ChatRequest, WhatIsLeftOutIsAbsent) {
  const ChatRequest request = parse_chat_request(chat_with(R"("temperature": null, "from_the_future": {"a": [1]})"));
  const GenerationRequest& g = request.generation;
  EXPECT_EQ(g.model, "");
  EXPECT_FALSE(g.sampling.temperature || g.sampling.top_k || g.sampling.seed || g.sampling.dry_sequence_breakers);
  EXPECT_FALSE(g.max_tokens || g.top_logprobs || g.stream || g.include_usage || g.ignore_eos);
  EXPECT_EQ(g.n, 1);
  EXPECT_TRUE(g.cache_prompt);
  EXPECT_EQ(g.constraint.kind, OutputConstraint::Kind::kNone);
  EXPECT_FALSE(request.tools || request.template_variables);
  EXPECT_EQ(*request.messages, OrderedJson::parse(R"([{"role": "user", "content": "hello"}])"));
}

TEST(ChatRequest, EverySettingIsRead) {
  const ChatRequest request = parse_chat_request(chat_with(
      R"("model": "m", "temperature": 0.5, "top_p": 0.9, "top_k": -1, "min_p": 0.05, "typical_p": 0.7,
      "repeat_penalty": 1.1, "repeat_last_n": -1, "frequency_penalty": -2, "presence_penalty": 2, "mirostat": 2,
      "mirostat_tau": 4, "mirostat_eta": 0.2, "dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3,
      "dry_penalty_last_n": 64, "dry_sequence_breakers": ["\n"], "xtc_probability": 0.5, "xtc_threshold": 0.2,
      "dynatemp_range": 0.1, "dynatemp_exponent": 1.5, "top_n_sigma": 1, "seed": 7, "logit_bias": {"5": -100, "6": 1.5},
      "stop": ["a", "b"], "max_tokens": 9, "max_completion_tokens": 8, "n": 3, "stream": true,
      "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 4, "cache_prompt": false,
      "ignore_eos": true, "id_slot": 3, "chat_template_kwargs": {"enable_thinking": false},
      "parallel_tool_calls": false)"));
  const GenerationRequest& g = request.generation;
  const SamplingRequest& s = g.sampling;
  EXPECT_EQ(g.model, "m");
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_p, 0.9);
  EXPECT_EQ(s.top_k, 0);
  EXPECT_EQ(s.min_p, 0.05);
  EXPECT_EQ(s.typical_p, 0.7);
  EXPECT_EQ(s.repeat_penalty, 1.1);
  EXPECT_EQ(s.repeat_last_n, -1);
  EXPECT_EQ(s.frequency_penalty, -2);
  EXPECT_EQ(s.presence_penalty, 2);
  EXPECT_EQ(s.mirostat, 2);
  EXPECT_EQ(s.mirostat_tau, 4);
  EXPECT_EQ(s.mirostat_eta, 0.2);
  EXPECT_EQ(s.dry_multiplier, 0.8);
  EXPECT_EQ(s.dry_base, 2);
  EXPECT_EQ(s.dry_allowed_length, 3);
  EXPECT_EQ(s.dry_penalty_last_n, 64);
  EXPECT_EQ(s.dry_sequence_breakers, std::vector<std::string>{"\n"});
  EXPECT_EQ(s.xtc_probability, 0.5);
  EXPECT_EQ(s.xtc_threshold, 0.2);
  EXPECT_EQ(s.dynatemp_range, 0.1);
  EXPECT_EQ(s.dynatemp_exponent, 1.5);
  EXPECT_EQ(s.top_n_sigma, 1);
  EXPECT_EQ(s.seed, 7);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<int32_t, double>>{{5, -100}, {6, 1.5}}));
  EXPECT_EQ(g.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(g.max_tokens, 8);
  EXPECT_EQ(g.n, 3);
  EXPECT_TRUE(g.stream && g.include_usage && g.ignore_eos);
  EXPECT_EQ(g.top_logprobs, 4);
  EXPECT_FALSE(g.cache_prompt || request.parallel_tool_calls);
  EXPECT_EQ(*request.template_variables, OrderedJson::parse(R"({"enable_thinking": false})"));
}

TEST(ChatRequest, OtherWaysToSayIt) {
  const auto generation = [](const std::string& more) { return parse_chat_request(chat_with(more)).generation; };
  EXPECT_EQ(generation(R"("stop": "x")").stop, std::vector<std::string>{"x"});
  EXPECT_EQ(generation(R"("n_predict": 5)").max_tokens, 5);
  EXPECT_FALSE(generation(R"("max_tokens": -1)").max_tokens);
  EXPECT_EQ(generation(R"("max_tokens": 5.0)").max_tokens, 5);
  EXPECT_FALSE(generation(R"("seed": -1)").sampling.seed);
  // llama.cpp's own defaults, which its clients send along, mean "off".
  const SamplingRequest defaults = generation(R"("top_n_sigma": -1.0, "top_k": -1, "mirostat": 0)").sampling;
  EXPECT_EQ(defaults.top_n_sigma, 0);
  EXPECT_EQ(defaults.top_k, 0);
  EXPECT_EQ(generation(R"("seed": 4294967295)").sampling.seed, 4294967295);
  const auto bias = generation(R"("logit_bias": [[3, 1], [4, false]])").sampling.logit_bias;
  ASSERT_EQ(bias.size(), 2u);
  EXPECT_EQ(bias[0], std::make_pair(int32_t{3}, 1.0));
  EXPECT_TRUE(std::isinf(bias[1].second));
  EXPECT_EQ(generation(R"("logprobs": true)").top_logprobs, 0);
}

TEST(ChatRequest, WhatIsOutOfRangeIsNamed) {
  for (const char* field : {"temperature", "top_p", "min_p", "typical_p", "top_k", "n", "max_tokens", "mirostat",
                            "repeat_penalty", "frequency_penalty", "presence_penalty", "xtc_probability", "dry_base",
                            "top_logprobs", "repeat_last_n", "max_completion_tokens", "n_predict"})
    for (const char* value : {"-7", "1e300", "\"1\"", "[]", "{}", "true"}) {
      const std::string said = chat_complaint(fmt::format("\"{}\": {}", field, value));
      EXPECT_TRUE(said.starts_with(fmt::format("{}: '{}' is ", field, field))) << said;
      EXPECT_NE(said.find("expected"), std::string::npos) << said;
    }
  EXPECT_EQ(chat_complaint(R"("temperature": -0.5)"),
            "temperature: 'temperature' is -0.5; expected a number from 0 to 100");
  EXPECT_EQ(chat_complaint(R"("n": 1.5)"), "n: 'n' is 1.5; expected an integer from 1 to 128");
  EXPECT_NE(chat_complaint(R"("seed": 18446744073709551615)").find("'seed'"), std::string::npos);
  EXPECT_NE(chat_complaint(R"("temperature": NaN)").find("not valid JSON"), std::string::npos);
  EXPECT_NE(chat_complaint(R"("temperature": 1e999)").find("the request's body"), std::string::npos);
}

TEST(ChatRequest, WrongTypesAreNamedWithTheirPlace) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"("stream": 1)", "stream: "},
      {R"("stream_options": [])", "stream_options: "},
      {R"("stream_options": {"include_usage": "yes"})", "stream_options.include_usage: "},
      {R"("stop": [1])", "stop[0]: "},
      {R"("stop": "")", "stop: "},
      {R"("model": 5)", "model: "},
      {R"("logit_bias": {"x": 1})", "logit_bias: "},
      {R"("logit_bias": {"-1": 1})", "logit_bias: "},
      {R"("logit_bias": {"1": 101})", "logit_bias.1: "},
      {R"("logit_bias": [[1]])", "logit_bias[0]: "},
      {R"("top_logprobs": 3)", "top_logprobs: "},
      {R"("mirostat": 1)", "mirostat: "},
      {R"("response_format": {"type": "xml"})", "response_format.type: "},
      {R"("response_format": {"type": "json_schema"})", "response_format.json_schema: "},
      {R"("response_format": {"type": "json_schema", "json_schema": {}})", "response_format.json_schema.schema: "},
      {R"("json_schema": 5)", "json_schema: "},
      {R"("grammar": "root ::= \"a\"", "json_schema": {})", "response_format: "},
      {R"("tools": [{"type": "web"}])", "tools[0].type: "},
      {R"("tools": [{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name: "},
      {R"("tool_choice": "required")", "tools: "},
      {R"("functions": [])", "functions: "},
      {R"("chat_template_kwargs": 1)", "chat_template_kwargs: "}};
  for (const auto& [more, param] : wrong) EXPECT_TRUE(chat_complaint(more).starts_with(param)) << chat_complaint(more);
}

TEST(ChatRequest, MessagesAsTemplatesWantThem) {
  const ChatRequest request = parse_chat_request(R"({"messages": [
    {"role": "developer", "content": "be brief", "name": "boss"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
      {"function": {"name": "g", "arguments": "no json"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"}]})");
  EXPECT_EQ(*request.messages, OrderedJson::parse(R"([
    {"role": "system", "content": "be brief", "name": "boss"},
    {"role": "user", "content": "a\nb"},
    {"role": "assistant", "content": "", "tool_calls": [
      {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}, "id": "c1"},
      {"type": "function", "function": {"name": "g", "arguments": "no json"}}]},
    {"role": "tool", "content": "42", "tool_call_id": "c1"}])"));
}

TEST(ChatRequest, MessagesThatAreNone) {
  const std::pair<const char*, const char*> wrong[] = {
      {"{}", "messages: "},
      {R"({"messages": []})", "messages: "},
      {R"({"messages": "hi"})", "messages: "},
      {R"({"messages": ["hi"]})", "messages[0]: "},
      {R"({"messages": [{"content": "hi"}]})", "messages[0].role: "},
      {R"({"messages": [{"role": "king", "content": "hi"}]})", "messages[0].role: "},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content: "},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content: "},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages[0].content[0].type: "},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})", "messages[0].content[0].text: "},
      {R"({"messages": [{"role": "assistant", "content": null}]})", "messages[0].content: "}};
  for (const auto& [body, param] : wrong) {
    const std::string said = complaint(parse_chat_request, body);
    EXPECT_TRUE(said.starts_with(param)) << said;
  }
}

TEST(ChatRequest, BodiesThatAreNoRequest) {
  for (const std::string& body :
       std::vector<std::string>{"", "[]", "5", "null", "{", "{\"messages\": [", "\xff\xfe", "{\"model\": \"\xc3\"}",
                                std::string(100'000, '['), "{\"a\":" + std::string(100, '[') + std::string(100, ']') +
                                "}"}) {
    const std::string said = complaint(parse_chat_request, body);
    EXPECT_TRUE(said.starts_with(": ")) << said;
    EXPECT_LT(said.size(), 400u);
  }
}

TEST(ChatRequest, Tools) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "now", "parameters": {}}}])";
  using Choice = ChatRequest::ToolChoice;
  const auto with = [&](const std::string& more) { return parse_chat_request(chat_with(tools + more)); };
  EXPECT_EQ(with("").tool_choice, Choice::kAuto);
  EXPECT_EQ((*with("").tools)[0]["function"]["name"], "now");
  EXPECT_FALSE(with(R"(, "tool_choice": "none")").tools);
  EXPECT_EQ(with(R"(, "tool_choice": "required")").tool_choice, Choice::kRequired);
  const ChatRequest named = with(R"(, "tool_choice": {"type": "function", "function": {"name": "now"}})");
  EXPECT_EQ(named.tool_choice, Choice::kFunction);
  EXPECT_EQ(named.tool_name, "now");
  EXPECT_NE(chat_complaint(tools + R"(, "tool_choice": {"function": {"name": "then"}})").find("one of 'tools'"),
            std::string::npos);
}

TEST(ChatRequest, Constraints) {
  const auto constraint = [](const std::string& more) {
    return parse_chat_request(chat_with(more)).generation.constraint;
  };
  using Kind = OutputConstraint::Kind;
  EXPECT_EQ(constraint(R"("response_format": {"type": "text"}, "grammar": "")").kind, Kind::kNone);
  EXPECT_EQ(constraint(R"("response_format": {"type": "json_object"})").kind, Kind::kJson);
  const std::string schema = R"({"type":"object","required":["a"]})";
  for (const std::string& more :
       {R"("response_format": {"type": "json_object", "schema": )" + schema + "}", R"("json_schema": )" + schema,
        R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": )" + schema + "}}"}) {
    EXPECT_EQ(constraint(more).kind, Kind::kJsonSchema);
    EXPECT_EQ(constraint(more).text, schema);
  }
  EXPECT_EQ(constraint(R"("grammar": "root ::= [0-9]")").text, "root ::= [0-9]");
}

TEST(CompletionRequest, Prompts) {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion_request(fmt::format("{{\"prompt\": {}}}", prompt)).prompts;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(prompts("\"a\""), std::vector<Prompt>{"a"});
  EXPECT_EQ(prompts("\"\""), std::vector<Prompt>{""});
  EXPECT_EQ(prompts("[\"a\", \"b\"]"), (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(prompts("[1, 2]"), std::vector<Prompt>{(Ids{1, 2})});
  EXPECT_EQ(prompts("[[1], [2, 3], \"c\"]"), (std::vector<Prompt>{Ids{1}, Ids{2, 3}, "c"}));
  for (const char* wrong : {"null", "[]", "5", "{}", "[-1]", "[1.5]", "[1, \"a\"]", "[[]]", "[2147483648]", "[[[1]]]"})
    EXPECT_TRUE(complaint(parse_completion_request, fmt::format("{{\"prompt\": {}}}", wrong)).starts_with("prompt"))
        << wrong;
}

TEST(CompletionRequest, Fields) {
  const CompletionRequest request =
      parse_completion_request(R"({"prompt": "a", "suffix": "z", "echo": true, "logprobs": 3, "n": 2, "best_of": 2})");
  EXPECT_EQ(request.suffix, "z");
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.generation.top_logprobs, 3);
  EXPECT_TRUE(complaint(parse_completion_request, R"({"prompt": "a", "best_of": 2})").starts_with("best_of: "));
  EXPECT_EQ(parse_completion_request(R"({"prompt": "a", "logprobs": false})").generation.top_logprobs, std::nullopt);
}

TEST(OtherRequests, Fields) {
  const InfillRequest infill = parse_infill_request(
      R"({"input_prefix": "a", "input_suffix": "c", "prompt": "b", "input_extra": [{"filename": "f", "text": "t"}]})");
  EXPECT_EQ(infill.prefix + infill.prompt + infill.suffix, "abc");
  EXPECT_EQ(infill.extra[0], std::make_pair(std::string("f"), std::string("t")));
  EXPECT_TRUE(complaint(parse_infill_request, R"({"input_prefix": "a"})").starts_with("input_suffix: "));
  const EmbeddingsRequest embeddings =
      parse_embeddings_request(R"({"input": ["a", "b"], "encoding_format": "base64", "dimensions": 8})");
  EXPECT_EQ(embeddings.inputs.size(), 2u);
  EXPECT_TRUE(embeddings.base64);
  EXPECT_EQ(embeddings.dimensions, 8);
  EXPECT_TRUE(complaint(parse_embeddings_request, R"({"input": ""})").starts_with("input: "));
  EXPECT_TRUE(complaint(parse_embeddings_request, R"({"input": "a", "encoding_format": "x"})").starts_with("encoding"));
  const TokenizeRequest tokenize = parse_tokenize_request(R"({"content": "a", "with_pieces": true})");
  EXPECT_TRUE(tokenize.with_pieces && tokenize.parse_special && !tokenize.add_special);
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1, 2]})"), (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(parse_detokenize_request(R"({"tokens": []})").empty());
  EXPECT_TRUE(complaint(parse_detokenize_request, R"({"tokens": [1, -2]})").starts_with("tokens[1]: "));
}

TEST(ApiErrors, AsOpenAiWritesThem) {
  const auto said = [](const std::exception& e) {
    const HttpResponse response = error_response(e);
    return std::make_pair(response.status, response.body);
  };
  EXPECT_EQ(said(ApiError(400, "'n' is 0", "n")),
            std::make_pair(400, std::string(R"({"error":{"message":"'n' is 0","type":"invalid_request_error",)"
                                            R"("param":"n","code":null}})")));
  EXPECT_EQ(said(ApiError(400, "too long", "messages", "context_length_exceeded")).second,
            R"({"error":{"message":"too long","type":"invalid_request_error","param":"messages",)"
            R"("code":"context_length_exceeded"}})");
  EXPECT_EQ(said(HttpError(413, "large")).first, 413);
  EXPECT_EQ(said(error(Code::kNotFound, "no model")).first, 404);
  EXPECT_EQ(said(error(Code::kBadData, "bad")).first, 400);
  EXPECT_EQ(said(std::runtime_error("secret")).second.find("secret"), std::string::npos);
  EXPECT_NE(error_response(429, "full").body.find("rate_limit_error"), std::string::npos);
  EXPECT_NO_THROW(Json::parse(error_response(400, "\xff").body));
}

}  // namespace
}  // namespace espalier
