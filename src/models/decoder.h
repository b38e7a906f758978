// The decoder: one forward for training, evaluation and serving. "The logits the trainer saw are the logits the server
// gives" holds because it is the same code with the tape in another mode.
#pragma once
#include <deque>
#include <span>
#include <vector>

#include "comm/mesh.h"
#include "models/arch_spec.h"
#include "models/kv_cache.h"
#include "models/lora.h"
#include "models/quantised_weights.h"
#include "models/rope_table.h"
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

/// Rows of a batch that continue one cached sequence: row `begin + i` is at position cache->length() + i, or where the
/// paths say (kernels/attention.h, rows counted within the segment). Its key and value go to cache row
/// cache->length() + i either way.
struct CacheSegment {
  KvCache* cache = nullptr;
  int64_t begin = 0, count = 0;
  const KeyPaths* paths = nullptr;
};

/// N = sequences * rows tokens, sequence by sequence. The arrays must stay until the backward pass.
struct Batch {
  int64_t sequences = 0, rows = 0;
  const int32_t* ids = nullptr;
  const int32_t* positions = nullptr;  ///< restart at document borders
  const int32_t* first_key = nullptr;  ///< each row's document starts there; windows come on top. Null with segments
  std::span<const CacheSegment> segments = {};
  std::span<const LoraRows> adapted = {};  ///< when serving

  int64_t count() const { return sequences * rows; }
};

struct ForwardOptions {
  float dropout = 0;       ///< on the embedding and on what each sublayer adds to the residual stream
  uint64_t seed = 0;       ///< of dropout
  uint64_t stream = 0;     ///< differs for every micro-batch of a run
  bool recompute = false;  ///< keep only each layer's input and run the layer again in the backward pass
};

class Decoder {
 public:
  /// Zero weights. `dtype` is that of products. train: f32 masters with gradients, and a copy in `dtype` of matrices;
  /// otherwise matrices in `dtype` alone. The mesh's tensor group must be of one process for now.
  Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, bool train);
  /// A model that is only run, with these weights in blocks; its tape computes in f32.
  Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, QuantisedWeights quantised);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const ArchSpec& spec() const { return spec_; }
  DType dtype() const { return dtype_; }
  std::deque<Param>& params() { return params_; }
  const std::deque<Param>& params() const { return params_; }
  /// The weight of that name; null when there is none.
  Param* find(std::string_view name);

  /// The final hidden states [N, C], normed, ready for the head.
  Var hidden(Tape& tape, const Batch& batch, const ForwardOptions& options = {});
  /// Loss of each row (ops/head_loss.h); while recording, ready for tape.backward().
  void loss(Tape& tape, const Batch& batch, const int32_t* targets, float scale, float* losses,
            const ForwardOptions& options = {});
  /// f32 logits [hidden.rows, V], or of the first out.cols ids only.
  void logits(Tape& tape, const Var& hidden, Mat out);

  /// Refreshes the compute copies after the masters changed (loading, an optimizer without a fused copy).
  void refresh_copies(Context& ctx);
  void zero_grads(Context& ctx);

 private:
  /// A weight and its bias; null where the architecture has none.
  struct Weights {
    Param *w = nullptr, *b = nullptr;
  };
  struct Layer {
    Weights attention_norm, qkv, q_norm, k_norm, out, attention_post_norm, ffn_norm, up, down, ffn_post_norm;
  };
  struct Run;  // what the layers of one forward pass share

  Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, bool train, const QuantisedWeights& quantised);
  void add_param(const WeightInfo& info, bool train, const QuantisedWeights& quantised);
  Weights weights_of(const std::string& name) { return {find(name + ".weight"), find(name + ".bias")}; }
  Var embed(const Run& run);
  Var layer(const Run& run, const Var& x, int64_t index);
  Var attend(const Run& run, const Var& normed, int64_t index);
  Var attend_cached(const Run& run, const Var& qkv, int64_t index);
  void adapt(const Run& run, const Var& x, const Var& y, const Param& w);
  Var feed_forward(const Run& run, const Var& normed, const Layer& l);
  struct End;  // of a sublayer: what leads back to the residual stream
  Var add_to_stream(const Run& run, const Var& x, const Var& residual, const End& end);
  Var norm_of(const Run& run, const Var& x, const Weights& norm, bool wide = false);

  ArchSpec spec_;
  Mesh mesh_;
  DType dtype_;
  std::deque<Param> params_;
  std::vector<Layer> layers_;
  Param *embedding_ = nullptr, *positions_ = nullptr, *head_ = nullptr;
  Weights final_norm_;
  RopeTable rope_, local_rope_;
};

}  // namespace espalier
