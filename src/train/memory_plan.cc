#include "train/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/human.h"
#include "ops/head_loss.h"
#include "train/data_loader.h"

namespace espalier {
namespace {

/// BufferPool without the memory: the same choices, sizes only.
class PoolModel {
 public:
  int64_t acquire(int64_t bytes) {
    bytes = std::max<int64_t>(64, (bytes + 63) / 64 * 64);
    const auto found = std::lower_bound(free_.begin(), free_.end(), bytes);
    if (found != free_.end() && *found <= bytes + bytes / 4) {
      const int64_t taken = *found;
      free_.erase(found);
      return taken;
    }
    allocated_ += bytes;
    return bytes;
  }
  void release(int64_t buffer) { free_.insert(std::lower_bound(free_.begin(), free_.end(), buffer), buffer); }
  int64_t allocated() const { return allocated_; }

 private:
  std::vector<int64_t> free_;  // sorted
  int64_t allocated_ = 0;
};

/// One training step of the decoder as requests to the pool.
class StepModel {
 public:
  StepModel(const ArchSpec& spec, int64_t rows, DType dtype, bool drops)
      : s_(spec), rows_(rows), e_(dtype_size(dtype)), drops_(drops) {}

  int64_t run(bool recompute) {
    const int64_t stream = take(4 * s_.width);
    std::vector<int64_t> embedded = {stream};
    if (drops_) embedded.push_back(take(4 * s_.width));
    std::vector<std::vector<int64_t>> layers;
    for (int64_t i = 0; i < s_.layers; ++i) {
      layers.push_back(layer_forward());
      if (recompute) keep_output(layers.back());
    }
    head();
    int64_t dx = take(4 * s_.width);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      if (recompute) {
        std::vector<int64_t> again = layer_forward();
        layer_backward(again);
      } else {
        layer_backward(*layer);
        continue;
      }
      give(*layer);
    }
    pool_.release(dx);
    give(embedded);
    return pool_.allocated();
  }

 private:
  int64_t take(int64_t bytes_a_row) { return pool_.acquire(rows_ * bytes_a_row); }
  void give(std::vector<int64_t>& buffers) {
    for (const int64_t b : buffers) pool_.release(b);
    buffers.clear();
  }

  /// What a layer's records hold; the last one is its output.
  std::vector<int64_t> layer_forward() {
    std::vector<int64_t> held;
    const auto norm = [&] {
      if (s_.pre_norm) held.insert(held.end(), {take(e_ * s_.width), take(8)});
      if (!s_.pre_norm && e_ != 4) held.push_back(take(e_ * s_.width));
    };
    const auto sublayer = [&] {
      held.push_back(take(4 * s_.width));
      if (s_.post_norm) held.insert(held.end(), {take(4 * s_.width), take(8)});
      if (drops_) held.push_back(take(4 * s_.width));
      if (drops_ || s_.post_norm || s_.residual_scale != 1) held.push_back(take(4 * s_.width));
    };
    norm();
    held.push_back(take(e_ * s_.qkv_width()));
    if (s_.qk_norm != QkNorm::kNone) {
      held.push_back(take(e_ * (s_.query_width() + s_.kv_width())));
      held.push_back(take(s_.qk_norm == QkNorm::kWhole ? 16 : 8 * (s_.heads + s_.kv_heads)));
    }
    held.insert(held.end(), {take(e_ * s_.query_width()), take(4 * s_.heads)});
    sublayer();
    if (!s_.parallel_block || !s_.shared_norm) norm();
    held.insert(held.end(), {take(e_ * s_.up_width()), take(e_ * s_.ffn)});
    sublayer();
    return held;
  }

  void keep_output(std::vector<int64_t>& held) {
    const int64_t output = held.back();
    held.pop_back();
    give(held);
    held = {output};
  }

  /// The greatest demand of a layer's backward pass: the gradients around its widest products.
  void layer_backward(std::vector<int64_t>& held) {
    std::vector<int64_t> transient;
    if (e_ != 4) transient.push_back(take(e_ * s_.width));  // dy in the products' dtype
    transient.push_back(take(e_ * s_.ffn));
    transient.push_back(take(e_ * s_.up_width()));
    give(transient);
    transient = {take(e_ * s_.width), take(4 * s_.width)};
    give(transient);
    transient = {take(e_ * s_.query_width()), take(e_ * s_.qkv_width()), take(e_ * s_.width)};
    if (s_.parallel_block) transient.push_back(take(e_ * s_.width));
    give(transient);
    give(held);
  }

  void head() {
    const int64_t slice = std::min(rows_, head_slice_rows(s_.vocab));
    std::vector<int64_t> buffers = {take(e_ * s_.width), take(8), take(e_ * s_.width),
                                    pool_.acquire(slice * s_.vocab * 4)};
    if (e_ != 4 || s_.logit_softcap > 0) buffers.push_back(pool_.acquire(slice * s_.vocab * e_));
    give(buffers);
  }

  const ArchSpec& s_;
  int64_t rows_, e_;
  bool drops_;
  PoolModel pool_;
};

int64_t matrix_parameters(const ArchSpec& spec) {
  int64_t n = 0;
  for (const WeightInfo& w : weight_list(spec))
    if (w.rows > 0 && w.name != "positions.weight" && (w.name != "embedding.weight" || spec.tied_head))
      n += w.rows * w.cols;
  return n;
}

int64_t largest_parameter(const ArchSpec& spec) {
  int64_t n = 0;
  for (const WeightInfo& w : weight_list(spec)) n = std::max(n, std::max<int64_t>(w.rows, 1) * w.cols);
  return n;
}

/// The number in a one-line file of the control group, or the largest.
int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value > 0 ? value : std::numeric_limits<int64_t>::max();
}

/// What the program itself takes (code, SQLite, libraries' tables) and what the kernels keep: packed panels and partial
/// sums a thread. Measured on models from 0.1M to 124M parameters, the largest in f32 alone.
constexpr int64_t kProgramBytes = int64_t{30} << 20;
constexpr int64_t kKernelBytesPerThread = int64_t{6} << 20;

}  // namespace

int64_t MemoryPlan::total() const {
  int64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.bytes;
  return bytes;
}

int64_t activation_bytes(const ArchSpec& spec, int64_t rows, DType dtype, const TrainConfig& config) {
  return StepModel(spec, rows, dtype, config.model.dropout > 0).run(config.compute.recompute);
}

MemoryPlan plan_memory(const TrainConfig& config, const ArchSpec& spec, DType dtype, int threads) {
  const int64_t n = parameter_count(spec), rows = config.data.batch * config.data.context;
  const int64_t moments = config.optim.kind == "muon" ? n + (n - matrix_parameters(spec)) : 2 * n;
  MemoryPlan plan;
  plan.parts = {{"weights, f32", 4 * n}, {"gradients, f32", 4 * n}, {"moments, f32", 4 * moments}};
  if (dtype != DType::kF32)
    plan.parts.push_back({fmt::format("weights, {}", dtype_name(dtype)), dtype_size(dtype) * matrix_parameters(spec)});
  if (config.optim.kind != "adamw") plan.parts.push_back({"update of the largest weight", 4 * largest_parameter(spec)});
  plan.parts.push_back({"activations and head", activation_bytes(spec, rows, dtype, config)});
  if (config.run.save_every > 0) plan.parts.push_back({"copy for checkpoints", 4 * (n + moments)});
  const BatchShape shape{config.data.batch, config.data.context, config.data.accumulate};
  plan.parts.push_back({"loader", 3 * 4 * int64_t(sizeof(int32_t)) * shape.all_rows()});
  plan.parts.push_back({"program and kernels", kProgramBytes + kKernelBytesPerThread * threads});
  return plan;
}

int64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  int64_t available = std::numeric_limits<int64_t>::max();
  for (std::string line; std::getline(meminfo, line);)
    if (int64_t kib = 0; line.starts_with("MemAvailable:") && std::istringstream(line.substr(13)) >> kib)
      available = kib * 1024;
  const int64_t v1 = limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
                v2 = limit_in("/sys/fs/cgroup/memory.max");
  return std::min({available, v1, v2});
}

std::string plan_text(const TrainConfig& config, const ArchSpec& spec, DType dtype, const MemoryPlan& plan) {
  const double flops = train_flops_per_token(spec, config.data.context, AttentionCount::kCausal);
  Table facts({{"what"}, {"value"}});
  facts.row({"model", fmt::format("{}, {} layers of width {}, {} heads, vocabulary {}", spec.family, spec.layers,
                                  spec.width, spec.heads, spec.vocab)});
  facts.row({"parameters", human_count(double(parameter_count(spec)))});
  facts.row({"products in", dtype_name(dtype)});
  facts.row({"tokens a step", fmt::format("{} = {} sequences x {} tokens x {} micro-batches", config.tokens_per_step(),
                                          config.data.batch, config.data.context, config.data.accumulate)});
  facts.row({"FLOPs a token", human_count(flops) + " (forward and backward, causal attention)"});
  if (config.run.max_steps > 0)
    facts.row({"FLOPs in all", human_count(flops * double(config.tokens_per_step()) * double(config.run.max_steps))});
  Table memory({{"memory"}, {"bytes", true}});
  for (const MemoryPart& part : plan.parts) memory.row({part.name, human_bytes(double(part.bytes))});
  memory.row({"in all", human_bytes(double(plan.total()))});
  return facts.text(false) + "\n" + memory.text();
}

void check_fits(const MemoryPlan& plan, int64_t available) {
  if (plan.total() <= available) return;
  const auto largest = std::max_element(plan.parts.begin(), plan.parts.end(),
                                        [](const MemoryPart& a, const MemoryPart& b) { return a.bytes < b.bytes; });
  throw error(Code::kNoSpace,
              "planning the run: it needs {} of memory and {} are available; the largest part is {} ({}). "
              "Take a smaller model, data.batch or data.context, or compute.recompute=true, or run.save_every=0",
              human_bytes(double(plan.total())), human_bytes(double(available)), largest->name,
              human_bytes(double(largest->bytes)));
}

}  // namespace espalier
