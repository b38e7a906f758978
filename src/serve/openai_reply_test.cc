// The expected objects are written after OpenAI's API reference; field by field, since clients refuse what is missing.
#include "serve/openai_reply.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

const ReplyWriter kWriter("chatcmpl-1", "m", 1700000000);
constexpr Usage kUsage = {.prompt_tokens = 10, .completion_tokens = 3, .cached_tokens = 4, .reasoning_tokens = 1};

const std::vector<TokenScore> kScores = {
    {"h\xc3\xa9", -0.5, {{"h\xc3\xa9", -0.5, {}}, {"x", -std::numeric_limits<double>::infinity(), {}}}},
    {"\xc3", -1, {}}};

OrderedJson parsed(const std::string& text) {
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return OrderedJson::parse(text);
}

/// The frame of a reply of one choice.
OrderedJson framed(const std::string& object, const std::string& choice) {
  return OrderedJson::parse(R"({"id": "chatcmpl-1", "object": ")" + object +
                            R"(", "created": 1700000000, "model": "m", "choices": [)" + choice + "]}");
}

TEST(ReplyWriter, Chat) {
  const ChatAnswer answers[] = {{.content = "hi", .reasoning = "hm", .finish = AnswerEnd::kLength},
                                {.calls = {{"call_1", "f", "{\"a\": 1}"}}, .finish = AnswerEnd::kToolCalls}};
  OrderedJson expected = framed("chat.completion", R"(
      {"index": 0, "message": {"role": "assistant", "content": "hi", "reasoning_content": "hm", "refusal": null},
       "logprobs": null, "finish_reason": "length"},
      {"index": 1, "message": {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
         {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
       "logprobs": null, "finish_reason": "tool_calls"})");
  expected["usage"] = OrderedJson::parse(
      R"({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13,
          "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details":
          {"reasoning_tokens": 1, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}})");
  EXPECT_EQ(parsed(kWriter.chat(answers, kUsage)), expected);
}

TEST(ReplyWriter, ChatChunks) {
  const auto chunk = [](const std::string& choice) { return framed("chat.completion.chunk", choice); };
  EXPECT_EQ(parsed(kWriter.chat_role(1)),
            chunk(R"({"index": 1, "delta": {"role": "assistant", "content": "", "refusal": null},
                      "finish_reason": null})"));
  EXPECT_EQ(parsed(kWriter.chat_delta(0, {.content = "a \"quote\"\n"})),
            chunk(R"({"index": 0, "delta": {"content": "a \"quote\"\n"}, "finish_reason": null})"));
  EXPECT_EQ(parsed(kWriter.chat_delta(0, {.reasoning = "hm"})),
            chunk(R"({"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": null})"));
  EXPECT_EQ(parsed(kWriter.chat_delta(0, {.calls = {{"c2", "f", "{}"}, {"c3", "g", "{}"}}}, 2)),
            chunk(R"({"index": 0, "delta": {"tool_calls": [
              {"index": 2, "id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
              {"index": 3, "id": "c3", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
              "finish_reason": null})"));
  EXPECT_EQ(parsed(kWriter.chat_finish(0, AnswerEnd::kStop)),
            chunk(R"({"index": 0, "delta": {}, "finish_reason": "stop"})"));
  const OrderedJson usage = parsed(kWriter.chat_usage(kUsage));
  EXPECT_TRUE(usage["choices"].is_array() && usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["total_tokens"], 13);
}

TEST(ReplyWriter, ChatLogprobs) {
  const OrderedJson expected = OrderedJson::parse(R"({"content": [
      {"token": "h\u00e9", "logprob": -0.5, "bytes": [104, 195, 169], "top_logprobs": [
        {"token": "h\u00e9", "logprob": -0.5, "bytes": [104, 195, 169]},
        {"token": "x", "logprob": -9999.0, "bytes": [120]}]},
      {"token": "\ufffd", "logprob": -1.0, "bytes": [195], "top_logprobs": []}], "refusal": null})");
  EXPECT_EQ(parsed(kWriter.chat_delta(0, {.content = "x"}, 0, &kScores))["choices"][0]["logprobs"], expected);
  const ChatAnswer answers[] = {{.content = "x", .scores = kScores}};
  EXPECT_EQ(parsed(kWriter.chat(answers, kUsage))["choices"][0]["logprobs"], expected);
}

TEST(ReplyWriter, Text) {
  const TextAnswer answers[] = {{.text = "ab", .finish = AnswerEnd::kStop, .scores = kScores, .text_offset = 5}};
  const Timings timings = {.prompt_tokens = 10, .generated_tokens = 3, .prompt_ms = 5, .generated_ms = 30,
                           .drafted = 4, .drafts_accepted = 2};
  const OrderedJson reply = parsed(kWriter.text(answers, kUsage, &timings));
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["choices"], OrderedJson::parse(R"([{"index": 0, "text": "ab", "logprobs": {
      "tokens": ["h\u00e9", "\ufffd"], "token_logprobs": [-0.5, -1.0],
      "top_logprobs": [{"h\u00e9": -0.5, "x": -9999.0}, {}], "text_offset": [5, 7]}, "finish_reason": "stop"}])"));
  EXPECT_EQ(reply["timings"]["predicted_per_second"], 100.0);
  EXPECT_EQ(reply["timings"]["draft_n_accepted"], 2);
  EXPECT_EQ(parsed(kWriter.text_delta(2, {.text = "c"})),
            framed("text_completion", R"({"index": 2, "text": "c", "logprobs": null, "finish_reason": null})"));
  EXPECT_EQ(parsed(kWriter.text_usage(kUsage))["usage"]["prompt_tokens"], 10);
}

TEST(ReplyWriter, TextThatIsNoUtf8) {
  const OrderedJson chunk = parsed(kWriter.chat_delta(0, {.content = "a\xff" "b"}));
  EXPECT_EQ(chunk["choices"][0]["delta"]["content"], "a\xef\xbf\xbd" "b");
}

TEST(OtherReplies, Models) {
  const ServedModel models[] = {{.id = "m", .created_s = 5, .parameters = 100, .context = 20, .vocabulary = 30}};
  EXPECT_EQ(parsed(models_json(models)), OrderedJson::parse(R"({"object": "list", "data": [
      {"id": "m", "object": "model", "created": 5, "owned_by": "espalier",
       "meta": {"n_params": 100, "n_ctx": 20, "n_vocab": 30}}]})"));
}

TEST(OtherReplies, Embeddings) {
  const std::vector<float> vectors[] = {{1, -0.5f}, {0, 2}};
  EXPECT_EQ(parsed(embeddings_json("m", vectors, false, 7)), OrderedJson::parse(R"({"object": "list", "data": [
      {"object": "embedding", "index": 0, "embedding": [1.0, -0.5]},
      {"object": "embedding", "index": 1, "embedding": [0.0, 2.0]}],
      "model": "m", "usage": {"prompt_tokens": 7, "total_tokens": 7}})"));
  // python3 -c "import base64, struct; print(base64.b64encode(struct.pack('<2f', 1, -.5)))"
  EXPECT_EQ(parsed(embeddings_json("m", vectors, true, 7))["data"][0]["embedding"], "AACAPwAAAL8=");
}

TEST(OtherReplies, Tokens) {
  const int32_t ids[] = {1, 2};
  const std::string pieces[] = {"a", "\xc3"};
  EXPECT_EQ(tokens_json(ids, {}), R"({"tokens":[1,2]})");
  EXPECT_EQ(tokens_json(ids, pieces), R"({"tokens":[{"id":1,"piece":"a"},{"id":2,"piece":[195]}]})");
  EXPECT_EQ(content_json("a\"b"), R"({"content":"a\"b"})");
}

TEST(IdSource, NoTwoAreAlike) {
  IdSource ids(7);
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(ids.next("chatcmpl-"));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(seen.begin()->size(), std::strlen("chatcmpl-") + 16);
}

}  // namespace
}  // namespace espalier
