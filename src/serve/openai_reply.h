// The answers of OpenAI's HTTP API as JSON text: whole objects, and the chunks of a stream. Nothing here waits, knows a
// model or touches a socket: whoever generates tokens makes chunks with a ReplyWriter and writes them, as events
// (net/sse.h), into an HttpReply.
//
// Text that is no UTF-8 is shown with U+FFFD in its place; log-probabilities of -infinity as -9999, as OpenAI does.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

enum class AnswerEnd { kStop, kLength, kToolCalls };

/// "stop", "length", "tool_calls".
const char* finish_name(AnswerEnd reason);

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
  int64_t cached_tokens = 0;  ///< of the prompt's, found in the prefix cache
  int64_t reasoning_tokens = 0;
  int64_t accepted_drafts = 0, rejected_drafts = 0;
};

/// llama.cpp's "timings" object, which chat pages show.
struct Timings {
  int64_t prompt_tokens = 0, generated_tokens = 0;
  double prompt_ms = 0, generated_ms = 0;
  int64_t drafted = 0, drafts_accepted = 0;
};

/// The log-probability of a generated token and of the likeliest in its place.
struct TokenScore {
  std::string bytes;
  double logprob = 0;
  std::vector<TokenScore> top;  ///< without tops of their own
};

struct ToolCall {
  std::string id, name;
  std::string arguments;  ///< JSON text
};

/// A part of a chat's answer as it comes.
struct ChatDelta {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
};

/// A whole answer of a chat.
struct ChatAnswer {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  AnswerEnd finish = AnswerEnd::kStop;
  std::optional<std::vector<TokenScore>> scores;  ///< where log-probabilities are wanted
};

/// A whole or partial answer of a completion.
struct TextAnswer {
  std::string text;
  std::optional<AnswerEnd> finish;  ///< absent in chunks before the last
  std::optional<std::vector<TokenScore>> scores;
  int64_t text_offset = 0;  ///< characters of the answer before `text`; scores need it
};

/// Names for replies that no two get: "chatcmpl-0123456789abcdef".
class IdSource {
 public:
  explicit IdSource(uint64_t seed) : seed_(seed) {}
  /// Any thread.
  std::string next(std::string_view prefix);

 private:
  uint64_t seed_;
  std::atomic<uint64_t> count_{0};
};

/// Writes the objects of one reply. Each function gives JSON text on one line.
class ReplyWriter {
 public:
  ReplyWriter(std::string id, std::string model, int64_t created_s)
      : id_(std::move(id)), model_(std::move(model)), created_s_(created_s) {}

  std::string chat(std::span<const ChatAnswer> answers, const Usage& usage, const Timings* timings = nullptr) const;

  /// The first chunk of answer `index`: the role.
  std::string chat_role(int64_t index) const;
  /// `first_call` is the number of tool calls that this answer had before.
  std::string chat_delta(int64_t index, const ChatDelta& delta, int64_t first_call = 0,
                         const std::vector<TokenScore>* scores = nullptr) const;
  std::string chat_finish(int64_t index, AnswerEnd reason, const Timings* timings = nullptr) const;
  /// The chunk without choices that comes last where include_usage asks for it.
  std::string chat_usage(const Usage& usage) const;

  std::string text(std::span<const TextAnswer> answers, const Usage& usage, const Timings* timings = nullptr) const;
  std::string text_delta(int64_t index, const TextAnswer& part, const Timings* timings = nullptr) const;
  std::string text_usage(const Usage& usage) const;

 private:
  std::string id_, model_;
  int64_t created_s_;
};

/// What ends a stream of events.
inline constexpr const char* kStreamEnd = "[DONE]";

struct ServedModel {
  std::string id;
  int64_t created_s = 0, parameters = 0, context = 0, vocabulary = 0;
};

/// /v1/models.
std::string models_json(std::span<const ServedModel> models);

struct ListedAdapter {
  std::string name, path;
};
/// llama.cpp's /lora-adapters, with names. None applies where a request asks for none: the scales are 0.
std::string adapters_json(std::span<const ListedAdapter> adapters);

/// /v1/embeddings: [inputs][width], as numbers or as the base64 of little-endian floats.
std::string embeddings_json(const std::string& model, std::span<const std::vector<float>> embeddings, bool base64,
                            int64_t prompt_tokens);

/// llama.cpp's /tokenize: {"tokens": [1, 2]}, or with pieces [{"id": 1, "piece": "a"}]; a piece that is no UTF-8
/// becomes an array of bytes. `pieces` is empty or as long as `ids`.
std::string tokens_json(std::span<const int32_t> ids, std::span<const std::string> pieces);
/// llama.cpp's /detokenize: {"content": ...}.
std::string content_json(std::string_view content);

}  // namespace espalier
