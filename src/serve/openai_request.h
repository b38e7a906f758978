// The requests of OpenAI's HTTP API, and of the endpoints that llama.cpp's server has beside it, from JSON to values:
// types and ranges checked, nothing known of a model. What a request leaves out is absent here, and the server's own
// default holds; what is wrong is an ApiError 400 that names the field; fields that are not known are ignored.
//
// Sources: OpenAI's API reference (chat, completions, embeddings), and llama.cpp's server README for the settings that
// it adds under their names there.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace espalier {

/// How tokens are drawn; names as in llama.cpp's server, which include OpenAI's.
struct SamplingRequest {
  std::optional<double> temperature, dynatemp_range, dynatemp_exponent, top_n_sigma, top_p, min_p, typical_p;
  std::optional<double> xtc_probability, xtc_threshold, mirostat_tau, mirostat_eta;
  std::optional<double> repeat_penalty, frequency_penalty, presence_penalty, dry_multiplier, dry_base;
  std::optional<int64_t> top_k;     ///< 0: all tokens (-1 comes as 0, as top_n_sigma's does)
  std::optional<int64_t> mirostat;  ///< 0 or 2
  std::optional<int64_t> repeat_last_n, dry_penalty_last_n;  ///< -1: the whole context
  std::optional<int64_t> dry_allowed_length;
  std::optional<std::vector<std::string>> dry_sequence_breakers;
  std::optional<int64_t> seed;  ///< absent where the request leaves it to chance (-1)
  std::vector<std::pair<int32_t, double>> logit_bias;  ///< token ids with what is added; -infinity bans
};

/// What the generated text must be.
struct OutputConstraint {
  enum class Kind { kNone, kJson, kJsonSchema, kGrammar, kToolCall };
  Kind kind = Kind::kNone;
  std::string text;  ///< the schema's JSON, the grammar's GBNF, or describe_forced_call's
};

/// What every request for text has.
struct GenerationRequest {
  std::string model;  ///< empty: whatever is served
  /// llama.cpp's: adapters by number with their scales; absent: those that the model's name asks for.
  std::optional<std::vector<std::pair<int64_t, double>>> lora;
  SamplingRequest sampling;
  OutputConstraint constraint;
  std::vector<std::string> stop;
  std::optional<int64_t> max_tokens;    ///< absent: until the text or the context ends
  std::optional<int64_t> top_logprobs;  ///< present: log-probabilities are wanted, of so many tokens beside the chosen
  int64_t n = 1;                        ///< answers to one prompt
  bool stream = false, include_usage = false;
  bool cache_prompt = true, ignore_eos = false;
};

struct ChatRequest {
  GenerationRequest generation;
  /// As chat templates want them: text parts joined to one string, arguments of tool calls as objects, "developer" as
  /// "system".
  std::shared_ptr<const OrderedJson> messages;
  std::shared_ptr<const OrderedJson> tools;               ///< null where there are none or tool_choice is "none"
  std::shared_ptr<const OrderedJson> template_variables;  ///< chat_template_kwargs; null where there are none
  enum class ToolChoice { kAuto, kRequired, kFunction };
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;  ///< of kFunction
  bool parallel_tool_calls = true;
};

/// Text, or ids of tokens.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  GenerationRequest generation;
  std::vector<Prompt> prompts;  ///< at least one; the choices of prompt i have the indices i*n to i*n + n-1
  std::string suffix;           ///< what comes behind the text to be written; empty where there is none
  bool echo = false;            ///< the prompt is part of the answer
};

/// llama.cpp's /infill: what stands between a prefix and a suffix.
struct InfillRequest {
  GenerationRequest generation;
  std::string prefix, suffix;
  std::string prompt;  ///< continues the prefix, behind the marker of the middle
  std::vector<std::pair<std::string, std::string>> extra;  ///< other files: name and text
};

struct EmbeddingsRequest {
  std::string model;
  std::vector<Prompt> inputs;
  bool base64 = false;  ///< encoding_format
  std::optional<int64_t> dimensions;
};

/// llama.cpp's /tokenize and /detokenize.
struct TokenizeRequest {
  std::string content;
  bool add_special = false, parse_special = true, with_pieces = false;
};

constexpr int64_t kMaxChoices = 128, kMaxRequestTopLogprobs = 20;

ChatRequest parse_chat_request(std::string_view body);
CompletionRequest parse_completion_request(std::string_view body);
InfillRequest parse_infill_request(std::string_view body);
EmbeddingsRequest parse_embeddings_request(std::string_view body);
TokenizeRequest parse_tokenize_request(std::string_view body);
/// The ids to be made text.
std::vector<int32_t> parse_detokenize_request(std::string_view body);

}  // namespace espalier
