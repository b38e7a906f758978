#include "models/arch_spec.h"

#include "base/error.h"

namespace espalier {
namespace {

void check_attention(const ArchSpec& s, const std::string& what) {
  for (const double base : {s.rope_theta, s.local_rope_theta})
    if (base != 0 && !(base >= 1 && base <= 1e12))
      throw error(Code::kBadData, "{}: the base of rotary frequencies is {}; expected 1 to 1e12", what, base);
  if (s.rope_theta > 0 && s.rotary() % 2 != 0)
    throw error(Code::kBadData, "{}: rotary embedding needs an even head size; found {}", what, s.rotary());
  if (s.rotary() > s.head_size || s.rotary_size < 0)
    throw error(Code::kBadData, "{}: rotary embedding of {} numbers in heads of {}", what, s.rotary_size, s.head_size);
  if (s.window < 0) throw error(Code::kBadData, "{}: sliding window is {}; expected 0 or more", what, s.window);
  for (const auto* list : {&s.full_attention, &s.no_rope})
    if (!list->empty() && int64_t(list->size()) != s.layers)
      throw error(Code::kBadData, "{}: a list of layers has {} entries; the model has {} layers", what, list->size(),
                  s.layers);
}

void check_scales(const ArchSpec& s, const std::string& what) {
  struct Number {
    const char* name;
    double value;
    bool may_be_zero;
  };
  const Number numbers[] = {
      {"scale of the attention scores", s.attention_scale, true},
      {"soft cap of the attention scores", s.attention_softcap, true},
      {"soft cap of the logits", s.logit_softcap, true},
      {"scale of the embeddings", s.embedding_scale, false},
      {"scale of the residual branches", s.residual_scale, false},
      {"divisor of the logits", s.logit_divisor, false},
  };
  for (const Number& n : numbers)
    if (!(n.value > 0 || (n.may_be_zero && n.value == 0)) || n.value > 1e30)
      throw error(Code::kBadData, "{}: the {} is {}; expected a number above 0", what, n.name, n.value);
}

}  // namespace

void validate(const ArchSpec& s, const std::string& what) {
  struct Bound {
    const char* name;
    int64_t value, max;
  };
  const Bound bounds[] = {
      {"number of layers", s.layers, 10'000},        {"width", s.width, 1 << 20},
      {"number of heads", s.heads, 1 << 16},         {"number of key/value heads", s.kv_heads, 1 << 16},
      {"head size", s.head_size, 1 << 14},           {"feed-forward width", s.ffn, 1 << 24},
      {"vocabulary size", s.vocab, int64_t{1} << 31}, {"number of positions", s.positions, int64_t{1} << 31},
  };
  for (const Bound& b : bounds)
    if (b.value < 1 || b.value > b.max)
      throw error(Code::kBadData, "{}: {} is {}; expected 1 to {}", what, b.name, b.value, b.max);
  // Each size is allowed by itself; together they must stay countable.
  constexpr double kMaxWeights = 1e15;
  const double layer = double(s.width) * double(s.qkv_width() + s.query_width() + s.up_width() + s.ffn);
  const double weights = double(s.layers) * layer + double(s.width) * (2 * double(s.vocab) + double(s.positions));
  if (weights > kMaxWeights)
    throw error(Code::kBadData, "{}: its sizes make {:.1e} weights; expected at most {:.0e}", what, weights,
                kMaxWeights);
  if (s.heads % s.kv_heads != 0)
    throw error(Code::kBadData, "{}: {} heads cannot share {} key/value heads evenly", what, s.heads, s.kv_heads);
  if (!(s.norm_eps >= 0 && s.norm_eps <= 1))
    throw error(Code::kBadData, "{}: what a norm adds to the variance is {}; expected 0 to 1", what, s.norm_eps);
  check_attention(s, what);
  check_scales(s, what);
}

std::vector<WeightInfo> weight_list(const ArchSpec& s) {
  std::vector<WeightInfo> list;
  const auto norm = [&](const std::string& name, bool present = true) {
    if (!present) return;
    list.push_back({name + ".weight", 0, s.width});
    if (!s.rms_norm && s.norm_bias) list.push_back({name + ".bias", 0, s.width});
  };
  const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    list.push_back({name + ".weight", out, in});
    if (bias) list.push_back({name + ".bias", 0, out});
  };
  list.push_back({"embedding.weight", s.vocab, s.width});
  if (s.learned_positions) list.push_back({"positions.weight", s.positions, s.width});
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    norm(layer + "attention_norm", s.pre_norm);
    linear(layer + "attention.qkv", s.qkv_width(), s.width, s.qkv_bias);
    if (s.qk_norm != QkNorm::kNone) {
      const bool whole = s.qk_norm == QkNorm::kWhole;
      list.push_back({layer + "attention.q_norm.weight", 0, whole ? s.query_width() : s.head_size});
      list.push_back({layer + "attention.k_norm.weight", 0, whole ? s.kv_width() : s.head_size});
    }
    linear(layer + "attention.out", s.width, s.query_width(), s.out_bias);
    norm(layer + "attention_post_norm", s.post_norm);
    norm(layer + "ffn_norm", s.has_ffn_norm());
    linear(layer + "ffn.up", s.up_width(), s.width, s.ffn_bias);
    linear(layer + "ffn.down", s.width, s.ffn, s.ffn_bias);
    norm(layer + "ffn_post_norm", s.post_norm);
  }
  norm("final_norm");
  if (!s.tied_head) list.push_back({"head.weight", s.vocab, s.width});
  return list;
}

int64_t parameter_count(const ArchSpec& spec) {
  int64_t n = 0;
  for (const WeightInfo& w : weight_list(spec)) n += std::max<int64_t>(w.rows, 1) * w.cols;
  return n;
}

double mean_keys(const ArchSpec& s, int64_t rows, AttentionCount count) {
  const double t = double(rows);
  if (count == AttentionCount::kFull) return t;
  double sum = 0;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const int64_t window = s.window_of(layer);
    const double w = window > 0 && window < rows ? double(window) : t;
    sum += w - w * (w - 1) / (2 * t);  // (w*t - w(w-1)/2) / t; w = t gives (t + 1) / 2
  }
  return sum / double(s.layers);
}

double train_flops_per_token(const ArchSpec& s, int64_t rows, AttentionCount count) {
  const double layer = double(s.width) * double(s.qkv_width() + s.query_width()) +
                       double(s.width) * double(s.up_width() + s.ffn);
  const double products = double(s.layers) * layer + double(s.vocab) * double(s.width);
  const double attention = 4.0 * double(s.layers * s.query_width()) * mean_keys(s, rows, count);
  return 3 * (2 * products + attention);
}

}  // namespace espalier
