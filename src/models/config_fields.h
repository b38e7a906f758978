// The fields of Hugging Face's config.json that many families share, read into an ArchSpec and written from one. A
// family's own file adds what is its own. A value that the decoder cannot run is an error that names it.
#pragma once
#include <initializer_list>

#include "base/function_ref.h"
#include "base/json.h"
#include "models/arch_spec.h"

namespace espalier {

/// What a family takes where its config.json says nothing.
struct ConfigDefaults {
  double norm_eps = 1e-6, rope_theta = 10000;
  int64_t positions = 2048;
  int64_t head_size = 0;  ///< 0: width / heads
  bool tied_head = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
};

/// A decoder in Llama's manner: sizes, RMSNorm, gated feed-forward, rotary embedding with its scaling, tied head.
ArchSpec read_llama_fields(const Json& config, const std::string& what, const ConfigDefaults& defaults = {});
void write_llama_fields(const ArchSpec& spec, OrderedJson& config, const ConfigDefaults& defaults = {});

/// "attention_bias" and "mlp_bias".
void read_biases(const Json& config, ArchSpec& spec, const std::string& what);
void write_biases(const ArchSpec& spec, OrderedJson& config);

Activation read_activation(const Json& config, const char* key, const char* fallback, const std::string& what);
/// As transformers calls it.
const char* activation_name(Activation kind);

/// rope_theta, rope_scaling and partial_rotary_factor, where transformers 5 has them ("rope_parameters") and where
/// older files do.
void read_rope(const Json& config, ArchSpec& spec, const std::string& what, double default_theta = 10000);
/// In the older places, which every version reads.
void write_rope(const ArchSpec& spec, OrderedJson& config);
/// The share of a head that turns, so that head_dim times it, rounded down, is their number again.
double rotary_share(const ArchSpec& spec);
/// One object of rotary parameters, for families that have several.
RopeScaling read_rope_scaling(const Json& scaling, int64_t positions, const std::string& what);

/// "sliding_window" and "layer_types"; where the latter is missing, is_windowed(layer) says which layers have it.
void read_windows(const Json& config, ArchSpec& spec, const std::string& what,
                  FunctionRef<bool(int64_t)> is_windowed);
void write_windows(const ArchSpec& spec, OrderedJson& config);

/// "eos_token_id": one id, a list of them, or null; in config.json or in generation_config.json. Ids below 0, which
/// some files write for none, are left out. The spec keeps its own where the field is missing.
void read_eos(const Json& config, ArchSpec& spec, const std::string& what);
/// One id as a number, several as a list.
void write_eos(const ArchSpec& spec, OrderedJson& config);

/// Error kUnsupported where one of these fields is true: the family's weights have no place for what it asks.
void refuse_true(const Json& config, const std::string& what, std::initializer_list<const char*> keys);
/// Error kUnsupported for fields that change what any model computes and that no family here has (experts, encoders,
/// quantised weights).
void refuse_foreign_fields(const Json& config, const std::string& what);

}  // namespace espalier
