#include "serve/generation.h"

#include <cmath>
#include <random>

#include "base/json_value.h"
#include "serve/api_error.h"
#include "serve/tool_grammar.h"

namespace espalier {
namespace {

template <class T>
void take(const std::optional<T>& given, T& setting) {
  if (given) setting = *given;
}

std::vector<std::string> bias_settings(const std::vector<std::pair<int32_t, double>>& biases) {
  std::vector<std::string> settings;
  for (const auto& [id, bias] : biases)
    settings.push_back(std::isinf(bias) ? fmt::format("{}=-inf", id) : fmt::format("{}={}", id, bias));
  return settings;
}

SamplerConfig sampler_of(const SamplingRequest& asked, SamplerConfig s, const ArchSpec& spec) {
  take(asked.temperature, s.temperature);
  take(asked.dynatemp_range, s.dynatemp_range);
  take(asked.dynatemp_exponent, s.dynatemp_exponent);
  take(asked.top_n_sigma, s.top_n_sigma);
  take(asked.top_k, s.top_k);
  take(asked.typical_p, s.typical_p);
  take(asked.top_p, s.top_p);
  take(asked.min_p, s.min_p);
  take(asked.xtc_probability, s.xtc_probability);
  take(asked.xtc_threshold, s.xtc_threshold);
  take(asked.mirostat, s.mirostat);
  take(asked.mirostat_tau, s.mirostat_tau);
  take(asked.mirostat_eta, s.mirostat_eta);
  take(asked.repeat_penalty, s.repetition_penalty);
  take(asked.frequency_penalty, s.frequency_penalty);
  take(asked.presence_penalty, s.presence_penalty);
  take(asked.dry_multiplier, s.dry_multiplier);
  take(asked.dry_base, s.dry_base);
  take(asked.dry_allowed_length, s.dry_allowed_length);
  take(asked.dry_sequence_breakers, s.dry_sequence_breakers);
  // A window of -1 is the whole context.
  if (asked.repeat_last_n) s.repetition_window = *asked.repeat_last_n < 0 ? spec.positions : *asked.repeat_last_n;
  if (asked.dry_penalty_last_n) s.dry_range = *asked.dry_penalty_last_n < 0 ? 0 : *asked.dry_penalty_last_n;
  if (!asked.logit_bias.empty()) s.logit_bias = bias_settings(asked.logit_bias);
  s.seed = asked.seed ? *asked.seed : int64_t(std::random_device()() & 0x7FFFFFFF);
  return s;
}

}  // namespace

std::vector<GenerateRequest> requests_for(const GenerationRequest& asked, std::vector<int32_t> prompt,
                                          const ModelFacts& model, const GenerationDefaults& defaults) {
  const int64_t context = model.spec.positions, room = context - int64_t(prompt.size());
  if (room < 1)
    throw ApiError(400, fmt::format("the prompt has {} tokens and the model's context is {}, which leaves no room for "
                                    "an answer; shorten the prompt", prompt.size(), context),
                   "", "context_length_exceeded");
  GenerateRequest request;
  request.grammar = model.grammars->find(asked.constraint);
  request.lora = model.lora_of(asked);
  request.prompt = std::move(prompt);
  request.max_tokens = asked.max_tokens.value_or(room);
  if (!defaults.slide) request.max_tokens = std::min(room, request.max_tokens);
  request.slide = defaults.slide;
  request.sampler = sampler_of(asked.sampling, defaults.sampler, model.spec);
  request.stop = asked.stop;
  request.stop_ids = model.turn_ends;
  request.ignore_eos = asked.ignore_eos;
  if (asked.ignore_eos) request.stop_ids.clear();
  std::vector<GenerateRequest> requests(size_t(asked.n), request);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].id = i;
  return requests;
}

std::optional<ToolReading> expect_tool_calls(ChatRequest& asked, const ModelFacts& model) {
  using Choice = ChatRequest::ToolChoice;
  if (!asked.tools) return std::nullopt;
  ToolReading reading{.format = model.tools.value_or(ToolFormat::kBare), .names = {},
                      .one = !asked.parallel_tool_calls || asked.tool_choice == Choice::kFunction};
  for (const OrderedJson& tool : *asked.tools) reading.names.push_back(tool["function"]["name"].get<std::string>());
  OutputConstraint& constraint = asked.generation.constraint;
  if (asked.tool_choice == Choice::kAuto)
    return constraint.kind == OutputConstraint::Kind::kNone ? std::optional(reading) : std::nullopt;
  const auto opener = model.tokenizer.id_of(tool_opener(reading.format));
  // Special tokens are no text: an answer that may hold no others is written without them.
  const ForcedCall call{.format = reading.format, .opener = !opener || !model.tokenizer.is_special(*opener),
                        .several = !reading.one, .only = asked.tool_name};
  reading.one = false;  // that the grammar sees to
  constraint = {OutputConstraint::Kind::kToolCall, describe_forced_call(call, *asked.tools)};
  return reading;
}

}  // namespace espalier
