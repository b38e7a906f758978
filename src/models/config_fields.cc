#include "models/config_fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_value.h"

namespace espalier {
namespace {

struct ActivationRow {
  const char* name;
  Activation kind;
};
/// The first of a kind is how it is written.
constexpr ActivationRow kActivations[] = {
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
};

bool present(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

void read_llama3(const Json& scaling, RopeScaling& s, const std::string& what) {
  s.kind = RopeScaling::Kind::kLlama3;
  s.low_freq_factor = json_get<double>(scaling, "low_freq_factor", what);
  s.high_freq_factor = json_get<double>(scaling, "high_freq_factor", what);
  s.original_positions = json_get<int64_t>(scaling, "original_max_position_embeddings", what);
  if (!(s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0 && s.original_positions > 0))
    throw error(Code::kBadData, "{}: rope scaling needs 0 < low_freq_factor < high_freq_factor; found {} and {}", what,
                s.low_freq_factor, s.high_freq_factor);
}

void read_yarn(const Json& scaling, int64_t positions, RopeScaling& s, const std::string& what) {
  s.kind = RopeScaling::Kind::kYarn;
  s.original_positions = json_get_or<int64_t>(scaling, "original_max_position_embeddings", positions, what);
  s.beta_fast = json_get_or<double>(scaling, "beta_fast", 32, what);
  s.beta_slow = json_get_or<double>(scaling, "beta_slow", 1, what);
  s.attention_factor = json_get_or<double>(scaling, "attention_factor", 0, what);
  s.mscale = json_get_or<double>(scaling, "mscale", 0, what);
  s.mscale_all_dim = json_get_or<double>(scaling, "mscale_all_dim", 0, what);
  s.truncate = json_get_or<bool>(scaling, "truncate", true, what);
  if (!(s.beta_fast >= s.beta_slow && s.beta_slow > 0 && s.original_positions > 0))
    throw error(Code::kBadData, "{}: yarn needs 0 < beta_slow <= beta_fast and original_max_position_embeddings > 0; "
                "found {}, {} and {}", what, s.beta_slow, s.beta_fast, s.original_positions);
  for (const double amplitude : {s.attention_factor, s.mscale, s.mscale_all_dim})
    if (!(amplitude >= 0 && amplitude < 1e6))
      throw error(Code::kBadData, "{}: yarn's attention_factor, mscale and mscale_all_dim are {}, {} and {}; expected "
                  "0 or more", what, s.attention_factor, s.mscale, s.mscale_all_dim);
}

OrderedJson written_scaling(const RopeScaling& s) {
  switch (s.kind) {
    case RopeScaling::Kind::kNone:
      return nullptr;
    case RopeScaling::Kind::kLinear:
      return {{"rope_type", "linear"}, {"factor", s.factor}};
    case RopeScaling::Kind::kDynamic:
      return {{"rope_type", "dynamic"}, {"factor", s.factor}};
    case RopeScaling::Kind::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", s.factor},
              {"low_freq_factor", s.low_freq_factor},
              {"high_freq_factor", s.high_freq_factor},
              {"original_max_position_embeddings", s.original_positions}};
    case RopeScaling::Kind::kYarn:
      break;
  }
  OrderedJson yarn = {{"rope_type", "yarn"},
                      {"factor", s.factor},
                      {"original_max_position_embeddings", s.original_positions},
                      {"beta_fast", s.beta_fast},
                      {"beta_slow", s.beta_slow}};
  if (s.attention_factor > 0) yarn["attention_factor"] = s.attention_factor;
  if (s.mscale > 0) yarn["mscale"] = s.mscale;
  if (s.mscale_all_dim > 0) yarn["mscale_all_dim"] = s.mscale_all_dim;
  if (!s.truncate) yarn["truncate"] = false;
  return yarn;
}

/// The leading numbers of a head that turn; 0 for all.
int64_t rotary_size(double share, int64_t head_size, const std::string& what) {
  if (!(share > 0 && share <= 1))
    throw error(Code::kBadData, "{}: the share of each head that turns is {}; expected above 0, at most 1", what,
                share);
  return share == 1 ? 0 : int64_t(double(head_size) * share);
}

}  // namespace

ArchSpec read_llama_fields(const Json& config, const std::string& what, const ConfigDefaults& defaults) {
  ArchSpec s;
  s.layers = json_get<int64_t>(config, "num_hidden_layers", what);
  s.width = json_get<int64_t>(config, "hidden_size", what);
  s.heads = json_get<int64_t>(config, "num_attention_heads", what);
  s.kv_heads = json_get_or<int64_t>(config, "num_key_value_heads", s.heads, what);
  if (s.heads < 1) throw error(Code::kBadData, "{}: num_attention_heads is {}", what, s.heads);
  const int64_t head_size = defaults.head_size > 0 ? defaults.head_size : s.width / s.heads;
  s.head_size = json_get_or<int64_t>(config, "head_dim", head_size, what);
  s.ffn = json_get<int64_t>(config, "intermediate_size", what);
  s.vocab = json_get<int64_t>(config, "vocab_size", what);
  s.positions = json_get_or<int64_t>(config, "max_position_embeddings", defaults.positions, what);
  s.rms_norm = true;
  s.norm_bias = false;
  s.norm_eps = json_get_or<double>(config, "rms_norm_eps", defaults.norm_eps, what);
  s.activation = read_activation(config, defaults.activation_key, defaults.activation, what);
  s.gated_ffn = true;
  s.tied_head = json_get_or<bool>(config, "tie_word_embeddings", defaults.tied_head, what);
  read_rope(config, s, what, defaults.rope_theta);
  return s;
}

void write_llama_fields(const ArchSpec& s, OrderedJson& config, const ConfigDefaults& defaults) {
  config["num_hidden_layers"] = s.layers;
  config["hidden_size"] = s.width;
  config["num_attention_heads"] = s.heads;
  config["num_key_value_heads"] = s.kv_heads;
  config["head_dim"] = s.head_size;
  config["intermediate_size"] = s.ffn;
  config["vocab_size"] = s.vocab;
  config["max_position_embeddings"] = s.positions;
  config["rms_norm_eps"] = s.norm_eps;
  config[defaults.activation_key] = activation_name(s.activation);
  config["tie_word_embeddings"] = s.tied_head;
  write_rope(s, config);
}

void read_biases(const Json& config, ArchSpec& s, const std::string& what) {
  s.qkv_bias = s.out_bias = json_get_or<bool>(config, "attention_bias", false, what);
  s.ffn_bias = json_get_or<bool>(config, "mlp_bias", false, what);
}

void write_biases(const ArchSpec& s, OrderedJson& config) {
  config["attention_bias"] = s.qkv_bias;
  config["mlp_bias"] = s.ffn_bias;
}

Activation read_activation(const Json& config, const char* key, const char* fallback, const std::string& what) {
  const std::string name = json_get_or<std::string>(config, key, fallback, what);
  std::vector<const char*> known;
  for (const ActivationRow& row : kActivations) {
    if (name == row.name) return row.kind;
    known.push_back(row.name);
  }
  throw error(Code::kUnsupported, "{}: {} '{}' is not supported; {} are", what, key, name, fmt::join(known, ", "));
}

const char* activation_name(Activation kind) {
  for (const ActivationRow& row : kActivations)
    if (row.kind == kind) return row.name;
  ESP_CHECK(false, "activation {}", int(kind));
}

RopeScaling read_rope_scaling(const Json& scaling, int64_t positions, const std::string& what) {
  RopeScaling s;
  const char* key = scaling.contains("rope_type") ? "rope_type" : "type";
  const std::string type = json_get_or<std::string>(scaling, key, "default", what);
  if (type == "default") return s;
  s.factor = json_get_or<double>(scaling, "factor", 0, what);
  if (type == "linear")
    s.kind = RopeScaling::Kind::kLinear;
  else if (type == "dynamic")
    s.kind = RopeScaling::Kind::kDynamic;
  else if (type == "llama3")
    read_llama3(scaling, s, what);
  else if (type == "yarn")
    read_yarn(scaling, positions, s, what);
  else
    throw error(Code::kUnsupported, "{}: rope scaling '{}' is not supported; linear, dynamic, llama3 and yarn are. "
                "Contexts within the model's original length may do without it: take the field out", what, type);
  s.factor = json_get<double>(scaling, "factor", what);
  if (!(s.factor >= 1 && s.factor < 1e9))
    throw error(Code::kBadData, "{}: rope scaling factor is {}; expected >= 1", what, s.factor);
  return s;
}

void read_rope(const Json& config, ArchSpec& s, const std::string& what, double default_theta) {
  // transformers 5 keeps all in "rope_parameters"; before it, theta, share and scaling were fields of their own.
  const auto parameters = config.find("rope_parameters");
  const bool together = parameters != config.end() && parameters->is_object();
  const Json& fields = together ? *parameters : config;
  const std::string where = together ? what + " rope_parameters" : what;
  s.rope_theta = json_get_or<double>(fields, "rope_theta", default_theta, where);
  const double share = json_get_or<double>(config, "partial_rotary_factor", 1, what);
  s.rotary_size = rotary_size(json_get_or<double>(fields, "partial_rotary_factor", share, where), s.head_size, where);
  const auto scaling = config.find("rope_scaling");
  if (together)
    s.rope_scaling = read_rope_scaling(*parameters, s.positions, where);
  else if (scaling != config.end() && scaling->is_object())
    s.rope_scaling = read_rope_scaling(*scaling, s.positions, what + " rope_scaling");
  else if (scaling != config.end() && !scaling->is_null())
    throw error(Code::kBadData, "{}: \"rope_scaling\" is {}; expected an object", what, scaling->dump());
  if (!(s.rope_theta > 0)) throw error(Code::kBadData, "{}: rope_theta is {}; expected > 0", what, s.rope_theta);
}

double rotary_share(const ArchSpec& s) {
  const double share = double(s.rotary()) / double(s.head_size);
  return int64_t(double(s.head_size) * share) < s.rotary() ? std::nextafter(share, 1.0) : share;
}

void write_rope(const ArchSpec& s, OrderedJson& config) {
  config["rope_theta"] = s.rope_theta;
  if (s.rotary_size > 0) config["partial_rotary_factor"] = rotary_share(s);
  if (s.rope_scaling.kind != RopeScaling::Kind::kNone) config["rope_scaling"] = written_scaling(s.rope_scaling);
}

void read_windows(const Json& config, ArchSpec& s, const std::string& what, FunctionRef<bool(int64_t)> is_windowed) {
  s.window = json_get_or<int64_t>(config, "sliding_window", 0, what);
  const auto types = config.find("layer_types");
  const bool listed = types != config.end() && !types->is_null();
  if (listed && (!types->is_array() || int64_t(types->size()) != s.layers))
    throw error(Code::kBadData, "{}: \"layer_types\" is {}; expected a list of {}, one a layer", what,
                types->dump().substr(0, 60), s.layers);
  if (s.window <= 0 || s.layers > 10'000) return;  // validate() says what is wrong with either
  s.full_attention.assign(size_t(std::max<int64_t>(s.layers, 0)), false);
  for (int64_t i = 0; i < s.layers; ++i) {
    const Json type = listed ? (*types)[size_t(i)] : Json(is_windowed(i) ? "sliding_attention" : "full_attention");
    if (type != "sliding_attention" && type != "full_attention")
      throw error(Code::kUnsupported, "{}: layer_types[{}] is {}; \"sliding_attention\" and \"full_attention\" are "
                  "supported", what, i, type.dump());
    s.full_attention[size_t(i)] = type == "full_attention";
  }
  const auto full = std::count(s.full_attention.begin(), s.full_attention.end(), true);
  if (full == s.layers) s.window = 0;
  if (full == s.layers || full == 0) s.full_attention.clear();
}

void write_windows(const ArchSpec& s, OrderedJson& config) {
  config["sliding_window"] = s.window > 0 ? OrderedJson(s.window) : OrderedJson(nullptr);
  OrderedJson types = OrderedJson::array();
  for (int64_t i = 0; i < s.layers; ++i) types.push_back(s.window_of(i) > 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
}

void read_eos(const Json& config, ArchSpec& s, const std::string& what) {
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return;
  s.eos = std::nullopt;
  s.more_eos.clear();
  if (found->is_null()) return;
  constexpr size_t kMost = 1024;
  if (found->size() > kMost)
    throw error(Code::kBadData, "{}: \"eos_token_id\" lists {} ids; expected at most {}", what, found->size(), kMost);
  for (const Json& id : found->is_array() ? *found : Json::array({*found})) {
    if (!id.is_number_integer())
      throw error(Code::kBadData, "{}: \"eos_token_id\" is {}; expected an id or a list of ids", what,
                  found->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60));
    const int64_t value = id.get<int64_t>();
    if (value < 0 || s.ends_text(value)) continue;
    if (s.eos)
      s.more_eos.push_back(value);
    else
      s.eos = value;
  }
}

void write_eos(const ArchSpec& s, OrderedJson& config) {
  if (!s.eos) return;
  config["eos_token_id"] = *s.eos;
  if (s.more_eos.empty()) return;
  OrderedJson list = OrderedJson::array({*s.eos});
  for (const int64_t id : s.more_eos) list.push_back(id);
  config["eos_token_id"] = list;
}

void refuse_true(const Json& config, const std::string& what, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (json_get_or<bool>(config, key, false, what))
      throw error(Code::kUnsupported, "{}: \"{}\" true is not supported for this model_type; only a model without it "
                  "can be read", what, key);
}

void refuse_foreign_fields(const Json& config, const std::string& what) {
  if (present(config, "quantization_config"))
    throw error(Code::kUnsupported, "{}: \"quantization_config\" (weights quantised by another program) is not read; "
                "use the unquantised model", what);
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (present(config, key) && config[key] != 0 && config[key] != 1)
      throw error(Code::kUnsupported, "{}: \"{}\" is {}: mixtures of experts are not run yet; use a dense model", what,
                  key, config[key].dump());
  for (const char* key : {"clip_qkv", "text_config", "vision_config"})
    if (present(config, key))
      throw error(Code::kUnsupported, "{}: \"{}\" is {}; it is not supported, use a text model without it", what, key,
                  config[key].dump().substr(0, 60));
  for (const char* key : {"use_bidirectional_attention", "add_cross_attention", "is_encoder_decoder", "alibi"})
    if (present(config, key) && config[key] != false)
      throw error(Code::kUnsupported, "{}: \"{}\" is {}; only decoders that look back are run: use a model without it",
                  what, key, config[key].dump());
}

}  // namespace espalier
