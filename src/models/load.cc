#include "models/load.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "formats/gguf.h"
#include "models/config_fields.h"
#include "models/gguf_arch.h"
#include "models/registry.h"
#include "models/weight_source.h"

namespace espalier {
namespace {

// What one part of a weight goes through on its way in.
struct Part {
  std::string name;  // as found in the source
  int64_t row = 0, rows = 0;
  bool transposed = false;
  int64_t their_row = 0;
};

// GPT-2's first files name tensors without the prefix that transformers writes today.
std::string name_in(const WeightSource& source, const std::string& name) {
  constexpr std::string_view kPrefix = "transformer.";
  if (!source.shape(name) && name.starts_with(kPrefix) && source.shape(name.substr(kPrefix.size())))
    return name.substr(kPrefix.size());
  return name;
}

Part find_part(const WeightSource& source, const TensorPart& part, const Shape& whole) {
  Part p{name_in(source, part.name), part.row, part.rows};
  p.transposed = part.transposed && !source.transposes_conv1d();
  p.their_row = part.their_row;
  const int64_t cols = whole.rank() == 2 ? whole[1] : 1;
  if (p.rows == 0) p.rows = whole[0];
  const Shape* shape = source.shape(p.name);
  if (!shape)
    throw error(Code::kBadData, "reading {}: tensor {} is missing; {} promises it. Fetch the model again",
                source.path(), p.name, source.config_name());
  const int64_t rows = part.their_rows > 0 ? part.their_rows : p.rows;
  const Shape expected = whole.rank() == 1 ? Shape{rows} : p.transposed ? Shape{cols, rows} : Shape{rows, cols};
  if (!(*shape == expected))
    throw error(Code::kMismatch, "reading {}: tensor {} is {}; {} makes it {}", source.path(), p.name, shape->text(),
                source.config_name(), expected.text());
  return p;
}

// Rows [row, row + rows) of `target` from the part, converting on the way.
void copy_in(Context& ctx, const WeightSource& source, const Part& p, Tensor& target) {
  const bool vector = target.shape().rank() == 1;
  Mat to = target.mat();
  to = vector ? sub_cols(to, p.row, p.rows) : sub_rows(to, p.row, p.rows);
  if (!p.transposed) return source.read(ctx, p.name, p.their_row, to);
  Tensor wide(DType::kF32, {to.cols, to.rows});
  source.read(ctx, p.name, 0, wide.mat());
  Tensor turned(DType::kF32, {to.rows, to.cols});
  const float* w = wide.as<float>();
  float* t = turned.as<float>();
  parallel_ranges(ctx.pool, to.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c = 0; c < to.cols; ++c)
      for (int64_t r = begin; r < end; ++r) t[r * to.cols + c] = w[c * to.rows + r];
  });
  kernels(ctx).copy(ctx, {.src = std::as_const(turned).mat(), .dst = to});
}

std::vector<Part> parts_of(const WeightSource& source, const ArchSpec& spec, const WeightInfo& w) {
  const Shape whole = w.rows > 0 ? Shape{w.rows, w.cols} : Shape{w.cols};
  std::vector<Part> parts;
  for (const TensorPart& part : family(spec.family, source.path()).parts(spec, w.name))
    parts.push_back(find_part(source, part, whole));
  return parts;
}

// Control tokens of these names end a text in llama.cpp, whatever the metadata say of eos, so the files' makers do not
// list them.
constexpr std::string_view kEnds[] = {"<|endoftext|>", "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",
                                      "<|end|>",       "<|eot|>",    "<end_of_turn>", "<｜end▁of▁sentence｜>"};
constexpr int64_t kControlToken = 3;

void add_named_ends(const GgufMetadata& metadata, Json& ends) {
  const auto tokens = metadata.texts("tokenizer.ggml.tokens");
  const auto types = metadata.integers("tokenizer.ggml.token_type");
  if (!tokens || !types) return;
  for (size_t id = 0; id < std::min(tokens->size(), types->size()); ++id)
    if ((*types)[id] == kControlToken && std::ranges::find(kEnds, (*tokens)[id]) != std::end(kEnds))
      ends.push_back(id);
}

// The ends of a turn and of a message are ends of a text too.
ArchSpec gguf_spec(const GgufFile& file) {
  Json config = gguf_config(file);
  Json ends = Json::array();
  if (config.contains("eos_token_id")) ends.push_back(config["eos_token_id"]);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    if (const auto id = file.metadata().integer(key)) ends.push_back(*id);
  add_named_ends(file.metadata(), ends);
  constexpr size_t kMost = 16;  // a damaged file may repeat a name for ever
  if (ends.size() > kMost) ends.erase(ends.begin() + kMost, ends.end());
  if (!ends.empty()) config["eos_token_id"] = ends;
  return read_config(config, file.path());
}

void fill(Context& ctx, Decoder& model, const WeightSource& source, const ArchSpec& stored) {
  for (const WeightInfo& w : weight_list(stored)) {
    Param& p = *model.find(w.name);
    if (p.quantised) continue;
    for (const Part& part : parts_of(source, stored, w))
      copy_in(ctx, source, part, p.master ? p.master : p.compute_copy);
  }
  model.refresh_copies(ctx);
}

// Nothing where some of it is not in blocks.
std::optional<BlockWeight> block_weight(const WeightSource& source, const ArchSpec& spec, const WeightInfo& w) {
  if (w.rows == 0 || w.name == "positions.weight") return std::nullopt;
  BlockWeight weight{w.name, w.cols, w.name != "embedding.weight" || spec.tied_head, {}};
  std::vector<Part> parts = parts_of(source, spec, w);
  std::ranges::sort(parts, {}, &Part::row);
  for (const Part& part : parts) {
    if (part.transposed || !source.blocks(part.name)) return std::nullopt;
    weight.parts.push_back({part.name, part.their_row, part.rows});
  }
  return weight;
}

QuantisedWeights quantised_weights(Context& ctx, const std::shared_ptr<const WeightSource>& source,
                                   const ArchSpec& spec, Blocks blocks) {
  if (blocks == Blocks::kDequantise) return {};
  std::vector<BlockWeight> weights;
  for (const WeightInfo& w : weight_list(spec))
    if (auto weight = block_weight(*source, spec, w)) weights.push_back(std::move(*weight));
  return make_quantised(ctx, source, weights, blocks == Blocks::kPack);
}

}  // namespace

ArchSpec load_spec(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  if (is_gguf(path)) return gguf_spec(GgufFile::open(path));
  const std::string file = path + "/config.json", generation = path + "/generation_config.json";
  ArchSpec spec = read_config(read_json_file(file, kMaxBytes), file);
  if (!is_file(generation)) return spec;
  const Json settings = read_json_file(generation, kMaxBytes);
  if (settings.is_object()) read_eos(settings, spec, generation);
  return spec;
}

void check_weights(const WeightSource& source, const ArchSpec& spec) {
  std::set<std::string> used;
  for (const WeightInfo& w : weight_list(spec))
    for (const Part& part : parts_of(source, spec, w)) used.insert(part.name);
  for (const std::string& name : source.names()) {
    if (used.contains(name) || family(spec.family, source.path()).ignored(name)) continue;
    if (spec.tied_head && name == "lm_head.weight") continue;  // some writers keep the tied copy
    throw error(Code::kUnsupported, "reading {}: tensor {} has no place in the {} architecture that {} describes",
                source.path(), name, spec.family, source.config_name());
  }
}

std::unique_ptr<Decoder> load_model(Context& ctx, const Mesh& mesh, const std::string& path,
                                    const LoadOptions& options) {
  const ArchSpec spec = load_spec(path);
  const std::shared_ptr<const WeightSource> source = open_weight_source(path, spec);
  check_weights(*source, spec);  // before memory is taken: a configuration may lie
  ESP_CHECK(!options.train || options.blocks == Blocks::kDequantise, "blocks are not trained");
  auto model = options.train
                   ? std::make_unique<Decoder>(spec, mesh, options.dtype, true)
                   : std::make_unique<Decoder>(spec, mesh, options.dtype,
                                               quantised_weights(ctx, source, spec, options.blocks));
  fill(ctx, *model, *source, spec);
  return model;
}

void load_weights(Context& ctx, Decoder& model, const std::string& path) {
  load_weights(ctx, model, path, model.spec());
}

void load_weights(Context& ctx, Decoder& model, const std::string& path, const ArchSpec& stored) {
  const std::unique_ptr<WeightSource> source = open_weight_source(path, stored);
  check_weights(*source, stored);
  fill(ctx, model, *source, stored);
}

}  // namespace espalier
