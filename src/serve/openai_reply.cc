#include "serve/openai_reply.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/core.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

constexpr double kLowestLogprob = -9999;

std::string text_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

double shown_logprob(double logprob) { return std::max(logprob, kLowestLogprob); }

OrderedJson score_json(const TokenScore& score) {
  return {{"token", score.bytes},
          {"logprob", shown_logprob(score.logprob)},
          {"bytes", std::vector<uint8_t>(score.bytes.begin(), score.bytes.end())}};
}

OrderedJson chat_scores(const std::vector<TokenScore>* scores) {
  if (!scores) return nullptr;
  OrderedJson content = OrderedJson::array();
  for (const TokenScore& score : *scores) {
    OrderedJson entry = score_json(score), top = OrderedJson::array();
    for (const TokenScore& other : score.top) top.push_back(score_json(other));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

/// Characters of UTF-8: the bytes that do not continue one.
int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

/// The older shape, of completions: four lists side by side.
OrderedJson text_scores(const TextAnswer& answer) {
  if (!answer.scores) return nullptr;
  OrderedJson tokens = OrderedJson::array(), logprobs = tokens, tops = tokens, offsets = tokens;
  int64_t offset = answer.text_offset;
  for (const TokenScore& score : *answer.scores) {
    tokens.push_back(score.bytes);
    logprobs.push_back(shown_logprob(score.logprob));
    OrderedJson top = OrderedJson::object();
    for (const TokenScore& other : score.top) top[other.bytes] = shown_logprob(other.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += characters(score.bytes);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

OrderedJson usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"accepted_prediction_tokens", usage.accepted_drafts},
            {"rejected_prediction_tokens", usage.rejected_drafts}}}};
}

OrderedJson timings_json(const Timings& t) {
  const auto rate = [](int64_t tokens, double ms) { return ms > 0 ? double(tokens) * 1e3 / ms : 0.0; };
  return {{"prompt_n", t.prompt_tokens},
          {"prompt_ms", t.prompt_ms},
          {"prompt_per_second", rate(t.prompt_tokens, t.prompt_ms)},
          {"predicted_n", t.generated_tokens},
          {"predicted_ms", t.generated_ms},
          {"predicted_per_second", rate(t.generated_tokens, t.generated_ms)},
          {"draft_n", t.drafted},
          {"draft_n_accepted", t.drafts_accepted}};
}

OrderedJson call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", OrderedJson{{"name", call.name}, {"arguments", call.arguments}}}};
}

OrderedJson calls_json(const std::vector<ToolCall>& calls) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCall& call : calls) list.push_back(call_json(call));
  return list;
}

OrderedJson chat_choice(int64_t index, const ChatAnswer& answer) {
  OrderedJson message = {{"role", "assistant"}};
  // An answer that is calls alone has no content, which OpenAI's clients tell from an empty one.
  if (answer.content.empty() && !answer.calls.empty()) message["content"] = nullptr;
  else message["content"] = answer.content;
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  message["refusal"] = nullptr;
  if (!answer.calls.empty()) message["tool_calls"] = calls_json(answer.calls);
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", chat_scores(answer.scores ? &*answer.scores : nullptr)},
          {"finish_reason", finish_name(answer.finish)}};
}

OrderedJson text_choice(int64_t index, const TextAnswer& answer) {
  return {{"index", index},
          {"text", answer.text},
          {"logprobs", text_scores(answer)},
          {"finish_reason", answer.finish ? OrderedJson(finish_name(*answer.finish)) : OrderedJson()}};
}

OrderedJson chunk_choice(int64_t index, OrderedJson delta, OrderedJson finish,
                         const std::vector<TokenScore>* scores = nullptr) {
  OrderedJson choice = {{"index", index}, {"delta", std::move(delta)}};
  if (scores) choice["logprobs"] = chat_scores(scores);
  choice["finish_reason"] = std::move(finish);
  return choice;
}

std::string base64_of(const std::vector<float>& values) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  const size_t size = values.size() * sizeof(float);
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const auto at = [&](size_t j) { return j < size ? uint32_t{bytes[j]} : 0u; };
    const uint32_t three = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63];
  }
  const size_t missing = (3 - size % 3) % 3;
  return text.replace(text.size() - missing, missing, missing, '=');
}

}  // namespace

/// The frame that all replies share.
static OrderedJson frame(const std::string& id, const char* object, int64_t created_s, const std::string& model,
                         OrderedJson choices) {
  return {{"id", id}, {"object", object}, {"created", created_s}, {"model", model}, {"choices", std::move(choices)}};
}

const char* finish_name(AnswerEnd reason) {
  switch (reason) {
    case AnswerEnd::kLength: return "length";
    case AnswerEnd::kToolCalls: return "tool_calls";
    default: return "stop";
  }
}

std::string IdSource::next(std::string_view prefix) {
  const uint64_t count = count_++;
  return fmt::format("{}{}", prefix, hex64(hash64(&count, sizeof count, seed_)));
}

std::string ReplyWriter::chat(std::span<const ChatAnswer> answers, const Usage& usage, const Timings* timings) const {
  OrderedJson choices = OrderedJson::array();
  for (const ChatAnswer& answer : answers) choices.push_back(chat_choice(int64_t(choices.size()), answer));
  OrderedJson reply = frame(id_, "chat.completion", created_s_, model_, std::move(choices));
  reply["usage"] = usage_json(usage);
  if (timings) reply["timings"] = timings_json(*timings);
  return text_of(reply);
}

static std::string chat_chunk(const std::string& id, int64_t created_s, const std::string& model, OrderedJson choice,
                              const Timings* timings = nullptr) {
  OrderedJson choices = OrderedJson::array();
  choices.push_back(std::move(choice));
  OrderedJson chunk = frame(id, "chat.completion.chunk", created_s, model, std::move(choices));
  if (timings) chunk["timings"] = timings_json(*timings);
  return text_of(chunk);
}

std::string ReplyWriter::chat_role(int64_t index) const {
  const OrderedJson delta = {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
  return chat_chunk(id_, created_s_, model_, chunk_choice(index, delta, nullptr));
}

std::string ReplyWriter::chat_delta(int64_t index, const ChatDelta& delta, int64_t first_call,
                                    const std::vector<TokenScore>* scores) const {
  OrderedJson said = OrderedJson::object();
  // Log-probabilities of tokens that set no text free still need a chunk, and clients look for content there.
  if (!delta.content.empty() || (delta.reasoning.empty() && delta.calls.empty())) said["content"] = delta.content;
  if (!delta.reasoning.empty()) said["reasoning_content"] = delta.reasoning;
  OrderedJson calls = OrderedJson::array();
  for (const ToolCall& call : delta.calls) {
    OrderedJson entry = {{"index", first_call + int64_t(calls.size())}};
    entry.update(call_json(call));
    calls.push_back(std::move(entry));
  }
  if (!calls.empty()) said["tool_calls"] = std::move(calls);
  return chat_chunk(id_, created_s_, model_, chunk_choice(index, std::move(said), nullptr, scores));
}

std::string ReplyWriter::chat_finish(int64_t index, AnswerEnd reason, const Timings* timings) const {
  const OrderedJson choice = chunk_choice(index, OrderedJson::object(), finish_name(reason));
  return chat_chunk(id_, created_s_, model_, choice, timings);
}

std::string ReplyWriter::chat_usage(const Usage& usage) const {
  OrderedJson chunk = frame(id_, "chat.completion.chunk", created_s_, model_, OrderedJson::array());
  chunk["usage"] = usage_json(usage);
  return text_of(chunk);
}

std::string ReplyWriter::text(std::span<const TextAnswer> answers, const Usage& usage, const Timings* timings) const {
  OrderedJson choices = OrderedJson::array();
  for (const TextAnswer& answer : answers) choices.push_back(text_choice(int64_t(choices.size()), answer));
  OrderedJson reply = frame(id_, "text_completion", created_s_, model_, std::move(choices));
  reply["usage"] = usage_json(usage);
  if (timings) reply["timings"] = timings_json(*timings);
  return text_of(reply);
}

std::string ReplyWriter::text_delta(int64_t index, const TextAnswer& part, const Timings* timings) const {
  OrderedJson choices = OrderedJson::array();
  choices.push_back(text_choice(index, part));
  OrderedJson chunk = frame(id_, "text_completion", created_s_, model_, std::move(choices));
  if (timings) chunk["timings"] = timings_json(*timings);
  return text_of(chunk);
}

std::string ReplyWriter::text_usage(const Usage& usage) const {
  OrderedJson chunk = frame(id_, "text_completion", created_s_, model_, OrderedJson::array());
  chunk["usage"] = usage_json(usage);
  return text_of(chunk);
}

std::string models_json(std::span<const ServedModel> models) {
  OrderedJson data = OrderedJson::array();
  for (const ServedModel& model : models)
    data.push_back({{"id", model.id},
                    {"object", "model"},
                    {"created", model.created_s},
                    {"owned_by", "espalier"},
                    {"meta", OrderedJson{{"n_params", model.parameters},
                                         {"n_ctx", model.context},
                                         {"n_vocab", model.vocabulary}}}});
  return text_of({{"object", "list"}, {"data", std::move(data)}});
}

std::string adapters_json(std::span<const ListedAdapter> adapters) {
  OrderedJson list = OrderedJson::array();
  for (const ListedAdapter& a : adapters)
    list.push_back({{"id", list.size()}, {"name", a.name}, {"path", a.path}, {"scale", 0.0}});
  return text_of(list);
}

std::string embeddings_json(const std::string& model, std::span<const std::vector<float>> embeddings, bool base64,
                            int64_t prompt_tokens) {
  OrderedJson data = OrderedJson::array();
  for (const std::vector<float>& embedding : embeddings) {
    OrderedJson values = base64 ? OrderedJson(base64_of(embedding)) : OrderedJson(embedding);
    data.push_back({{"object", "embedding"}, {"index", data.size()}, {"embedding", std::move(values)}});
  }
  const OrderedJson usage = {{"prompt_tokens", prompt_tokens}, {"total_tokens", prompt_tokens}};
  return text_of({{"object", "list"}, {"data", std::move(data)}, {"model", model}, {"usage", usage}});
}

/// A piece as text, or as bytes where it is a part of a character.
static OrderedJson piece_json(const std::string& piece) {
  try {
    return OrderedJson::parse(OrderedJson(piece).dump());
  } catch (const Json::exception&) {  // the library's edge: no UTF-8
    return std::vector<uint8_t>(piece.begin(), piece.end());
  }
}

std::string tokens_json(std::span<const int32_t> ids, std::span<const std::string> pieces) {
  OrderedJson tokens = OrderedJson::array();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (pieces.empty()) tokens.push_back(ids[i]);
    else tokens.push_back({{"id", ids[i]}, {"piece", piece_json(pieces[i])}});
  }
  return text_of({{"tokens", std::move(tokens)}});
}

std::string content_json(std::string_view content) { return text_of({{"content", std::string(content)}}); }

}  // namespace espalier
