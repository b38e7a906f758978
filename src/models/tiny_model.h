// Test support: a folder with a small random model that speaks the golden tokenizer's 700 tokens.
#pragma once
#include "base/context.h"
#include "formats/test_folder.h"
#include "models/init.h"
#include "models/registry.h"
#include "models/save.h"
#include "text/tokenizer.h"

namespace espalier {

inline ArchSpec tiny_spec(const std::string& family) {
  ArchSpec s;
  s.family = family;
  s.layers = 2;
  s.width = 32;
  s.heads = 4;
  s.kv_heads = family == "gpt2" ? 4 : 2;
  s.head_size = 8;
  s.ffn = 64;
  s.vocab = 700;
  s.positions = 128;
  if (family == "gpt2") {
    s.qkv_bias = s.out_bias = s.ffn_bias = s.learned_positions = s.tied_head = true;
  } else {
    s.rms_norm = s.gated_ffn = true;
    s.activation = Activation::kSilu;
    s.rope_theta = 10000;
  }
  return s;
}

struct TinyModel {
  TestFolder folder;
  ThreadPool pool{1};
  Context ctx{pool, silent_log(), choose_isa()};
  Decoder model{tiny_spec("llama"), one_process_mesh(), DType::kF32, true};

  explicit TinyModel(const std::string& tokenizer = "gpt2", uint64_t seed = 1, const SaveOptions& options = {}) {
    initialise(ctx, model, seed, 0.2);
    save_model(ctx, model, path(), options);
    const std::string golden = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/";
    Tokenizer::load(golden + tokenizer + ".json").save(path());
  }
  std::string path() const { return folder / "model"; }
};

}  // namespace espalier
