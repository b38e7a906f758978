#include "train/train_config.h"

#include <algorithm>

#include "base/error.h"

namespace espalier {
namespace {

Error usage(const std::string& message) { return Error(Code::kUsage, message); }

void fill_gpt2(ArchSpec& s, const ModelConfig& m) {
  if (m.kv_heads != 0 && m.kv_heads != m.heads)
    throw usage(
        fmt::format("model.kv_heads is {}: gpt2 has as many key/value heads as heads ({}); use "
                    "model.family=llama for grouped heads",
                    m.kv_heads, m.heads));
  s.kv_heads = m.heads;
  s.ffn = m.ffn ? m.ffn : 4 * m.width;
  s.qkv_bias = s.out_bias = s.ffn_bias = true;
  s.learned_positions = true;
}

void fill_llama(ArchSpec& s, const ModelConfig& m) {
  s.kv_heads = m.kv_heads ? m.kv_heads : m.heads;
  s.ffn = m.ffn ? m.ffn : (8 * m.width / 3 + 63) / 64 * 64;  // as many weights as 4 x width without the gate
  s.rms_norm = true;
  s.norm_bias = false;
  s.norm_eps = 1e-6;
  s.activation = Activation::kSilu;
  s.gated_ffn = true;
  s.rope_theta = m.rope_theta;
}

}  // namespace

ArchSpec arch_of(const ModelConfig& m, int64_t vocab, int64_t context) {
  if (m.width % m.heads != 0)
    throw usage(fmt::format("model.width is {}, which {} heads cannot share evenly", m.width, m.heads));
  ArchSpec s;
  s.family = m.family;
  s.layers = m.layers;
  s.width = m.width;
  s.heads = m.heads;
  s.head_size = m.width / m.heads;
  s.vocab = vocab;
  s.positions = m.positions ? m.positions : context;
  s.window = m.window;
  s.parallel_block = m.parallel_block;
  s.tied_head = m.tied_head;
  if (m.family == "gpt2")
    fill_gpt2(s, m);
  else
    fill_llama(s, m);
  try {
    validate(s, "model");
  } catch (const Error& e) {  // the edge between a model's faults and a recipe's
    throw usage(fmt::format("these settings make no model: {}", e.what()));
  }
  return s;
}

void check_config(const TrainConfig& c) {
  if (c.data.train.empty())
    throw usage("data.train is empty: name the token shards to learn from (`espalier prepare` makes them)");
  if (!c.model.new_tokens.empty() && c.model.init.empty())
    throw usage("model.new_tokens is set but model.init is empty: only a model that exists gets new tokens; a new one "
                "learns those of the shards");
  if (c.run.out.empty()) throw usage("run.out is empty: name the run folder");
  if (c.run.max_steps == 0 && c.run.max_minutes == 0)
    throw usage("run.max_steps and run.max_minutes are both 0: one of them must end the run");
  if (c.run.sample_every > 0 && c.run.sample_prompt.empty())
    throw usage("run.sample_every is set but run.sample_prompt is empty: samples need something to continue");
}

std::vector<std::string> differences(const TrainConfig& now, const TrainConfig& before,
                                     std::span<const std::string_view> only) {
  TrainConfig a = now, b = before;
  const std::vector<FieldInfo> fields = config_fields(ESP_CONFIG(a)), old = config_fields(ESP_CONFIG(b));
  std::vector<std::string> list;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& path = fields[i].path;
    const bool named = std::any_of(only.begin(), only.end(), [&](std::string_view name) {
      return path == name || (path.starts_with(name) && path[name.size()] == '.');
    });
    if (named && fields[i].value != old[i].value)
      list.push_back(fmt::format("{} is {}, was {}", path, fields[i].value, old[i].value));
  }
  return list;
}

}  // namespace espalier
