#include "serve/generation_fields.h"

#include <charconv>
#include <limits>

#include "base/json_value.h"
#include "serve/api_error.h"

namespace espalier {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStops = 64, kMaxStopBytes = 1024, kMaxBiases = 1024, kMaxPrompts = 2048, kMaxAdapters = 64;

std::optional<std::vector<std::string>> read_strings(const RequestFields& fields, const char* name) {
  const OrderedJson* value = fields.find(name);
  if (!value) return std::nullopt;
  std::vector<std::string> strings;
  const auto add = [&](const OrderedJson& element, const std::string& path) {
    if (!element.is_string() || element.get_ref<const std::string&>().empty())
      fail_value(element, path, "a string that is not empty");
    if (element.get_ref<const std::string&>().size() > kMaxStopBytes)
      fail_value(element, path, fmt::format("at most {} bytes", kMaxStopBytes));
    strings.push_back(element.get<std::string>());
  };
  if (value->is_string()) add(*value, fields.path(name));
  else if (value->is_array()) fields.each(name, kMaxStops, add);
  else fields.fail(name, "a string or an array of strings");
  return strings;
}

double read_bias(const OrderedJson& value, const std::string& path) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<double>::infinity();  // llama.cpp's ban
  if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100))
    fail_value(value, path, "a number from -100 to 100, or false");
  return value.get<double>();
}

/// {"15043": -1.5}, or llama.cpp's [[15043, -1.5]].
void read_logit_bias(const RequestFields& fields, SamplingRequest& sampling) {
  const OrderedJson* value = fields.find("logit_bias");
  if (!value) return;
  const std::string path = fields.path("logit_bias");
  if (!value->is_object() && !value->is_array()) fields.fail("logit_bias", "an object of token ids and numbers");
  if (value->size() > kMaxBiases) fail_value(*value, path, fmt::format("at most {} tokens", kMaxBiases));
  if (value->is_array()) {
    return fields.each("logit_bias", kMaxBiases, [&](const OrderedJson& pair, const std::string& where) {
      if (!pair.is_array() || pair.size() != 2) fail_value(pair, where, "a pair of a token id and a number");
      OrderedJson id = OrderedJson::array();
      id.push_back(pair[0]);
      sampling.logit_bias.emplace_back(read_ids(id, where)[0], read_bias(pair[1], where + "[1]"));
    });
  }
  for (const auto& [key, bias] : value->items()) {
    int32_t id = -1;
    const auto [stop, status] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (status != std::errc() || stop != key.data() + key.size() || id < 0)
      fail_value(OrderedJson(key), path, "token ids as keys");
    sampling.logit_bias.emplace_back(id, read_bias(bias, path + "." + key));
  }
}

SamplingRequest read_sampling(const RequestFields& f) {
  SamplingRequest s;
  s.temperature = f.number("temperature", 0, 100);
  s.dynatemp_range = f.number("dynatemp_range", 0, 100);
  s.dynatemp_exponent = f.number("dynatemp_exponent", 0, 100);
  s.top_n_sigma = f.number("top_n_sigma", -1, 1000);
  if (s.top_n_sigma && *s.top_n_sigma < 0) s.top_n_sigma = 0;  // off, as llama.cpp writes it
  s.top_p = f.number("top_p", 0, 1);
  s.min_p = f.number("min_p", 0, 1);
  s.typical_p = f.number("typical_p", 0, 1);
  s.xtc_probability = f.number("xtc_probability", 0, 1);
  s.xtc_threshold = f.number("xtc_threshold", 0, 1);
  s.mirostat_tau = f.number("mirostat_tau", 0, 100);
  s.mirostat_eta = f.number("mirostat_eta", 0, 1);
  s.repeat_penalty = f.number("repeat_penalty", 0.01, 100);
  s.frequency_penalty = f.number("frequency_penalty", -2, 2);
  s.presence_penalty = f.number("presence_penalty", -2, 2);
  s.dry_multiplier = f.number("dry_multiplier", 0, 100);
  s.dry_base = f.number("dry_base", 1, 100);
  s.top_k = f.integer("top_k", -1, kMaxInt);
  if (s.top_k == -1) s.top_k = 0;
  s.mirostat = f.integer("mirostat", 0, 2);
  if (s.mirostat == 1) f.fail("mirostat", "0 or 2 (version 1 is not offered)");
  s.repeat_last_n = f.integer("repeat_last_n", -1, kMaxInt);
  s.dry_penalty_last_n = f.integer("dry_penalty_last_n", -1, kMaxInt);
  s.dry_allowed_length = f.integer("dry_allowed_length", 1, 1 << 20);
  s.dry_sequence_breakers = read_strings(f, "dry_sequence_breakers");
  s.seed = f.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  if (s.seed == -1) s.seed.reset();
  read_logit_bias(f, s);
  return s;
}

void read_lora(const RequestFields& fields, GenerationRequest& g) {
  if (!fields.find("lora")) return;
  g.lora.emplace();
  fields.each("lora", kMaxAdapters, [&](const OrderedJson& element, const std::string& path) {
    const RequestFields adapter(element, path);
    const auto id = adapter.integer("id", 0, kMaxInt);
    if (!id) adapter.fail("id", "the number of an adapter of /lora-adapters");
    g.lora->push_back({*id, adapter.number("scale", -100, 100).value_or(1)});
  });
}

OutputConstraint schema_constraint(const OrderedJson& schema, const std::string& path) {
  if (!schema.is_object() && !schema.is_boolean()) fail_value(schema, path, "a JSON schema");
  return {OutputConstraint::Kind::kJsonSchema, schema.dump()};
}

OutputConstraint read_response_format(const RequestFields& format) {
  const std::string type = format.required_string("type");
  if (type == "text") return {};
  if (type == "json_object") {
    // llama.cpp takes a schema here as well.
    const OrderedJson* schema = format.find("schema");
    if (schema) return schema_constraint(*schema, format.path("schema"));
    return {OutputConstraint::Kind::kJson, ""};
  }
  if (type != "json_schema") format.fail("type", "'text', 'json_object' or 'json_schema'");
  const std::optional<RequestFields> named = format.object("json_schema");
  if (!named) format.fail("json_schema", "an object with 'name' and 'schema'");
  const OrderedJson* schema = named->find("schema");
  if (!schema) named->fail("schema", "a JSON schema");
  return schema_constraint(*schema, named->path("schema"));
}

OutputConstraint read_constraint(const RequestFields& fields) {
  std::vector<OutputConstraint> found;
  if (const auto format = fields.object("response_format")) found.push_back(read_response_format(*format));
  if (const OrderedJson* schema = fields.find("json_schema"))
    found.push_back(schema_constraint(*schema, fields.path("json_schema")));
  if (auto grammar = fields.string("grammar"); grammar && !grammar->empty())
    found.push_back({OutputConstraint::Kind::kGrammar, *std::move(grammar)});
  std::erase_if(found, [](const OutputConstraint& c) { return c.kind == OutputConstraint::Kind::kNone; });
  if (found.size() > 1)
    throw ApiError(400, "'response_format', 'json_schema' and 'grammar' constrain the same text; expected one of them",
                   fields.path("response_format"));
  return found.empty() ? OutputConstraint{} : std::move(found[0]);
}

}  // namespace

std::vector<int32_t> read_ids(const OrderedJson& list, const std::string& path) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const OrderedJson& id = list[i];
    // The type of non-negative integers; negative ones have another.
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{kMaxInt})
      fail_value(id, fmt::format("{}[{}]", path, i), "the id of a token");
    ids.push_back(int32_t(id.get<uint64_t>()));
  }
  return ids;
}

std::vector<Prompt> read_prompts(const RequestFields& fields, const char* name) {
  const char* expected = "a string, an array of strings, an array of token ids, or an array of those";
  const OrderedJson* value = fields.find(name);
  if (!value || (!value->is_string() && (!value->is_array() || value->empty()))) fields.fail(name, expected);
  if (value->is_string()) return {Prompt(value->get<std::string>())};
  if (value->front().is_number()) return {Prompt(read_ids(*value, fields.path(name)))};
  std::vector<Prompt> prompts;
  fields.each(name, kMaxPrompts, [&](const OrderedJson& element, const std::string& path) {
    if (element.is_string()) prompts.emplace_back(element.get<std::string>());
    else if (element.is_array() && !element.empty()) prompts.emplace_back(read_ids(element, path));
    else fail_value(element, path, "a string or an array of token ids");
  });
  return prompts;
}

GenerationRequest read_generation(const RequestFields& fields) {
  GenerationRequest g;
  g.model = fields.string("model").value_or("");
  read_lora(fields, g);
  g.sampling = read_sampling(fields);
  g.constraint = read_constraint(fields);
  g.stop = read_strings(fields, "stop").value_or(std::vector<std::string>{});
  // The newest name first; -1 is llama.cpp's word for no bound.
  for (const char* name : {"max_completion_tokens", "max_tokens", "n_predict"})
    if (const auto bound = fields.integer(name, -1, kMaxInt); bound && !g.max_tokens) g.max_tokens = bound;
  if (g.max_tokens == -1) g.max_tokens.reset();
  g.n = fields.integer("n", 1, kMaxChoices).value_or(1);
  g.stream = fields.boolean("stream").value_or(false);
  if (const auto options = fields.object("stream_options"))
    g.include_usage = options->boolean("include_usage").value_or(false);
  g.cache_prompt = fields.boolean("cache_prompt").value_or(true);
  g.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  return g;
}

}  // namespace espalier
