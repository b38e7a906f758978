// config.json of models: whatever is accepted can be sized, and written and read again to the same model.
#include <cstdlib>

#include "base/error.h"
#include "base/json_value.h"
#include "fuzz.h"
#include "models/registry.h"

using espalier::ArchSpec;

namespace {

void expect(bool condition) {
  if (!condition) std::abort();
}

void check(const ArchSpec& spec) {
  expect(espalier::parameter_count(spec) > 0);
  for (const espalier::WeightInfo& weight : espalier::weight_list(spec)) expect(weight.rows >= 0 && weight.cols > 0);
  const double flops = espalier::train_flops_per_token(spec, 1024, espalier::AttentionCount::kCausal);
  expect(flops > 0 && flops < 1e30);
  const espalier::Json written = espalier::parse_json(write_config(spec, espalier::DType::kF32).dump(), "copy");
  const ArchSpec again = espalier::read_config(written, "copy");
  expect(again.layers == spec.layers && again.width == spec.width && again.heads == spec.heads);
  expect(again.kv_heads == spec.kv_heads && again.head_size == spec.head_size && again.ffn == spec.ffn);
  expect(again.vocab == spec.vocab && again.positions == spec.positions && again.window == spec.window);
  expect(again.parallel_block == spec.parallel_block && again.tied_head == spec.tied_head);
  expect(again.norm_eps == spec.norm_eps && again.rope_theta == spec.rope_theta);
  expect(again.rope_scaling.kind == spec.rope_scaling.kind && again.rope_scaling.factor == spec.rope_scaling.factor);
  expect(again.activation == spec.activation && again.bos == spec.bos && again.eos == spec.eos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check(espalier::read_config(espalier::parse_json({reinterpret_cast<const char*>(data), size}, "input"), "input"));
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":4,"vocab_size":61,"n_positions":64,"n_inner":null,)"
      R"("activation_function":"gelu_new","layer_norm_epsilon":1e-05,"bos_token_id":1,"eos_token_id":2})",
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":24,"num_attention_heads":4,"head_dim":6,)"
      R"("num_key_value_heads":2,"intermediate_size":40,"vocab_size":61,"rms_norm_eps":1e-06,"rope_theta":500.0,)"
      R"("rope_scaling":{"rope_type":"llama3","factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,)"
      R"("original_max_position_embeddings":16},"tie_word_embeddings":true,"eos_token_id":[2,3]})",
      R"({"model_type":"mistral","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,"intermediate_size":9,)"
      R"("vocab_size":5,"sliding_window":16,"rope_parameters":{"rope_theta":1e4,"rope_type":"linear","factor":2}})",
      R"({"model_type":"espalier_llama","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,)"
      R"("intermediate_size":9,"vocab_size":5,"sliding_window":16,"parallel_block":true})",
      // Products of sizes that are each allowed, or not yet checked, and overflow together.
      R"({"model_type":"gpt2","n_layer":1,"n_embd":4611686018427387904,"n_head":1,"vocab_size":61})",
      R"({"model_type":"llama","num_hidden_layers":10000,"hidden_size":1048576,"num_attention_heads":65536,)"
      R"("head_dim":16384,"intermediate_size":16777216,"vocab_size":2147483648})",
  };
}
