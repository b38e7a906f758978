// Generator: a model that writes. Requests share forward passes: each pass carries one row for every sequence that is
// being continued and pieces of prompts that are still being read; sequences leave as they finish and others
// take their place (continuous batching: Yu et al. 2022, Orca).
//
// All products are the serving ones, whose rows do not depend on each other (TapeMode::kServe). So a request gets the
// same logits, bit for bit, alone or among others and however its prompt was cut; and as its draws depend on
// (seed, request, position) alone, the same tokens.
//
// With a drafter, a request that is alone has guesses verified: one pass over its last token and a tree of guesses
// below it gives the logits behind each of them; the tokens are drawn along the tree as ever, and the first draw that
// was not guessed ends the walk. So guesses change the time, never the text (SwiftSpec, section 4.1).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/logprobs.h"
#include "engine/prefix_cache.h"
#include "engine/sampler.h"
#include "engine/speculation.h"
#include "models/decoder.h"
#include "text/grammar_matcher.h"
#include "text/tokenizer.h"

namespace espalier {

enum class FinishReason {
  kStop,       ///< a stop string, a stop id, or the end of what the grammar allows
  kEos,        ///< one of the ids that end the model's texts
  kLength,     ///< max_tokens
  kContext,    ///< prompt and text fill the model's context, and the request does not slide
  kCancelled,  ///< the callback returned false
  kGrammar,    ///< no token is left: the vocabulary cannot spell what must follow, the grammar can be read in too many
               ///< ways, or the request's own biases forbid the rest
};
/// "stop", "eos", "length", "context", "cancelled", "grammar"
const char* finish_reason_name(FinishReason reason);

struct GenerateRequest {
  std::vector<int32_t> prompt;  ///< at least one id (encode_prompt gives such)
  int64_t max_tokens = 128;
  SamplerConfig sampler;
  uint64_t id = 0;                ///< separates the draws of requests that share a seed
  std::vector<std::string> stop;  ///< end the text where one appears, and are not part of it; need a tokenizer
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  std::vector<LoraUse> lora;  ///< changes of the model for this request alone; a draft guesses without them
  /// What the text must be: other tokens are never drawn, and it ends only where the grammar does. Null: anything.
  std::shared_ptr<const TokenGrammar> grammar;
  /// At the end of the context the older half of the text is dropped, but for its first `keep` tokens, and what is left
  /// is read anew at its new positions. Otherwise the text ends there, kContext.
  bool slide = false;
  int64_t keep = 0;
  /// Called for each token with the text it sets free (often none: see TextStream), and with id -1 for text that was
  /// held back until the end. False cancels. May be empty.
  std::function<bool(int32_t id, std::string_view text)> on_token;
  /// Called before on_token with the log-probabilities of the token and of the `top_logprobs` likeliest. May be empty.
  std::function<void(const Logprobs& logprobs)> on_logprobs;
  int64_t top_logprobs = 0;
  /// Called before each draw with the logits [V]; for tests and evaluation. May be empty.
  std::function<void(std::span<const float> logits)> on_logits;
};

struct GenerateResult {
  std::vector<int32_t> ids;  ///< what was drawn, the token that ended it included
  std::string text;          ///< without special tokens and stop strings; empty without a tokenizer
  FinishReason finish_reason = FinishReason::kLength;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  ///< of these, the first so many were read for another request
  int64_t guessed = 0, accepted = 0;  ///< tokens of drafts that were verified, and those that were right
  double prefill_s = 0;  ///< from the first pass to the first token
  double decode_s = 0;   ///< from the first token to the last

  double prefill_tokens_per_s() const {
    return prefill_s > 0 ? double(prompt_tokens - cached_tokens) / prefill_s : 0;
  }
  double decode_tokens_per_s() const { return decode_s > 0 ? double(ids.size() - 1) / decode_s : 0; }
};

struct GeneratorOptions {
  int64_t max_batch = 16;       ///< sequences at a time
  int64_t prefill_rows = 128;   ///< prompt tokens a pass
  int64_t remember = 0;         ///< finished texts whose cache a prompt that begins alike may take over
  CacheType cache_type = CacheType::kF32;
  SpeculationOptions speculation;
};

class Generator {
 public:
  /// `tokenizer` may be null: then there is no text, and stop strings are refused. All are borrowed.
  Generator(Context& ctx, Decoder& model, const Tokenizer* tokenizer, const GeneratorOptions& options = {});
  ~Generator();

  /// Queues a request and returns its number: 0, 1, ... Throws Error kUsage where it cannot be served: no prompt, an id
  /// outside the vocabulary, a prompt that leaves no room in the context, max_tokens under 1, a bad sampler setting.
  size_t submit(GenerateRequest request);
  /// What submit() throws; may be called from any thread.
  void check(const GenerateRequest& request) const;
  /// One forward pass. False when there was nothing to do.
  bool step();
  /// Ends a request that is not finished: its result is what there is, kCancelled.
  void cancel(size_t number);
  /// Drops all requests and all that is remembered.
  void forget();
  /// The result, once: nothing while the request is not finished.
  std::optional<GenerateResult> take(size_t number);

  const Speculation& speculation() const { return speculation_; }

  /// Submits, runs to the end, and returns the results in order.
  std::vector<GenerateResult> generate(std::vector<GenerateRequest> requests);
  GenerateResult generate(GenerateRequest request);

 private:
  struct Sequence;
  struct Plan;  // the rows of one pass

  void admit();
  void recall(Sequence& sequence);
  void share(Sequence& sequence);
  Sequence* find_live(size_t number);
  void retire(Sequence& sequence);
  void plan(Plan& plan);
  void plan_prompts(Plan& plan, std::vector<Sequence*> readers);
  void forward(const Plan& plan);
  void draw(const Plan& plan);
  void walk(const Plan& plan);
  std::span<const float> logits_of(int64_t row) const;
  int32_t next_token(Sequence& sequence, int64_t row);
  bool constrain(Sequence& sequence, std::span<const float> logits) const;
  bool follow(Sequence& sequence, int32_t id) const;
  void accept(Sequence& sequence, int32_t id);
  void slide(Sequence& sequence);
  void forget_what_slid(Sequence& sequence);
  std::optional<FinishReason> ending(const Sequence& sequence, int32_t id) const;
  void finish(Sequence& sequence, FinishReason reason);

  Context& ctx_;
  Decoder& model_;
  const Tokenizer* tokenizer_;
  GeneratorOptions options_;
  BufferPool pool_;
  Speculation speculation_;
  Tensor logits_;  // f32 [rows whose logits a pass wants at most, V]
  size_t submitted_ = 0;
  std::vector<std::unique_ptr<Sequence>> waiting_;  // in order
  std::vector<std::unique_ptr<Sequence>> live_;  // in order of admission
  std::map<size_t, GenerateResult> finished_;
  PrefixCache remembered_;
};

}  // namespace espalier
