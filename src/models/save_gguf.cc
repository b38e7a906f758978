#include "models/save_gguf.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json_value.h"
#include "formats/gguf_quantise.h"
#include "formats/gguf_writer.h"
#include "formats/hf_folder.h"
#include "models/gguf_arch.h"
#include "models/gguf_recipe.h"
#include "models/gguf_tokenizer.h"
#include "models/gguf_weights.h"
#include "models/load.h"
#include "models/registry.h"
#include "models/weight_source.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTile = 1 << 20;  // numbers read at once
constexpr const char* kRopeFactors = "rope_freqs.weight";

/// A tensor on its way.
struct Item {
  std::string from;  ///< its name in the source
  PlannedGgufTensor to;
  GgmlType wanted = GgmlType::kF32;  ///< what it would be, were its rows whole blocks of that
  bool turned = false;               ///< stored [in, out] there and [out, in] here
};

struct Conversion {
  Context& ctx;
  const std::string& from;
  const ArchSpec& spec;
  const GgufArch& arch;
  const WeightSource& source;
  const GgufFile* file;  ///< the source's where it is one

  /// The tensor that has this name in the source's file.
  const GgufTensor* stored(const Item& item) const {
    if (!file || need_gguf_arch(*file).name != std::string_view(arch.name)) return nullptr;
    return file->find(item.to.name);
  }
};

const GgufArch& arch_for(const OrderedJson& config, const std::string& from) {
  const std::string type = config.at("model_type");
  if (const GgufArch* arch = find_gguf_arch_of(type)) return *arch;
  throw error(Code::kUnsupported, "converting {}: GGUF has no architecture for models of type '{}'", from, type);
}

const GgufRecipe& recipe_for(const std::string& dtype) {
  if (const GgufRecipe* recipe = find_gguf_recipe(dtype)) return *recipe;
  std::string known;
  for (const GgufRecipe& recipe : gguf_recipes()) known += (known.empty() ? "" : ", ") + std::string(recipe.name);
  throw error(Code::kUsage, "writing a .gguf: there is no dtype '{}'; there are {}", dtype, known);
}

std::vector<Item> items_of(const Conversion& c, const SaveGgufOptions& options) {
  const GgufRecipe& recipe = recipe_for(options.dtype);
  std::vector<Item> items;
  for (const std::string& name : c.source.names()) {
    if (family(c.spec.family, c.from).ignored(name)) continue;
    if (c.spec.tied_head && name == "lm_head.weight") continue;
    std::optional<std::string> to = config_to_gguf_name(c.arch, name);
    if (!to) to = config_to_gguf_name(c.arch, "transformer." + name);  // GPT-2's first files leave the prefix out
    if (!to) throw error(Code::kUnsupported, "converting {}: GGUF has no name for its tensor {}", c.from, name);
    Shape shape = *c.source.shape(name);
    const bool turned =
        c.arch.conv1d && !c.source.transposes_conv1d() && shape.rank() == 2 && to->starts_with("blk.");
    if (turned) shape = {shape[1], shape[0]};
    const GgmlType wanted = gguf_type_of(recipe, *to, shape, c.spec, options.head);
    items.push_back({name, {*to, fitting_type(wanted, shape[shape.rank() - 1]), shape}, wanted, turned});
  }
  return items;
}

std::vector<GgufFallback> fallbacks_of(const std::vector<Item>& items) {
  std::vector<GgufFallback> fallbacks;
  for (const Item& item : items) {
    if (item.to.type == item.wanted) continue;
    const auto same = [&](const GgufFallback& f) { return f.wanted == item.wanted && f.given == item.to.type; };
    auto at = std::find_if(fallbacks.begin(), fallbacks.end(), same);
    if (at == fallbacks.end()) at = fallbacks.insert(at, {item.wanted, item.to.type, {}});
    at->names.push_back(item.to.name);
  }
  return fallbacks;
}

void refuse_requantising(const Conversion& c, const std::vector<Item>& items) {
  for (const Item& item : items) {
    const GgufTensor* stored = c.stored(item);
    if (!stored || !is_quantised(stored->type) || stored->type == item.to.type) continue;
    if (bits_of(item.to.type) > bits_of(stored->type)) continue;
    throw error(Code::kUsage, "converting {}: its {} is {} already, and {} would round it a second time: the model "
                "becomes worse than one made so from the original weights. Convert those, or give --requantize",
                c.from, item.to.name, ggml_type_name(stored->type), ggml_type_name(item.to.type));
  }
}

/// The next numbers of a tensor, quantised on all threads.
void put(const Conversion& c, const Item& item, GgufWriter& writer, const float* numbers, int64_t count) {
  const GgmlTypeInfo& type = ggml_type_info(item.to.type);
  const float limit = largest_quantisable(type.type);
  for (int64_t i = 0; i < count; ++i)
    if (std::abs(numbers[i]) > limit)
      throw error(Code::kUnsupported, "converting {}: its tensor {} holds {}, and {} reaches to {}; give --dtype bf16 "
                  "or f32", c.from, item.from, numbers[i], type.name, limit);
  std::vector<std::byte> blocks(size_t(count / type.elements * type.bytes));
  quantise(c.ctx, type.type, numbers, count, blocks.data());
  writer.write_blocks(item.to.name, blocks.data(), blocks.size());
}

/// The numbers of a tensor as the source has them: a vector whole, a matrix some rows at a time.
template <class F>
void read_tiles(const Conversion& c, const Item& item, F&& use) {
  const Shape& shape = *c.source.shape(item.from);
  const bool vector = shape.rank() == 1;
  const int64_t rows = vector ? 1 : shape[0], cols = vector ? shape[0] : shape[1];
  const int64_t rows_a_tile = std::clamp<int64_t>(kTile / std::max<int64_t>(1, cols), 1, std::max<int64_t>(1, rows));
  Tensor tile(DType::kF32, {rows_a_tile, cols});
  for (int64_t row = 0; row < rows; row += rows_a_tile) {
    const int64_t count = std::min(rows_a_tile, rows - row);
    c.source.read(c.ctx, item.from, row, sub_rows(tile.mat(), 0, count));
    use(std::as_const(tile).as<float>(), count * cols);
  }
}

/// Whole tensors whose rows change places, whose numbers are turned or shifted.
void write_changed(const Conversion& c, const Item& item, GgufWriter& writer) {
  const Shape& shape = item.to.shape;
  const int64_t rows = shape[0], cols = shape.rank() == 2 ? shape[1] : 1;
  Tensor numbers(DType::kF32, *c.source.shape(item.from)), changed(DType::kF32, shape);
  c.source.read(c.ctx, item.from, 0, numbers.mat());
  const float* x = numbers.as<float>();
  float* y = changed.as<float>();
  const bool shifted = c.arch.norms_plus_one && shape.rank() == 1 && item.from.ends_with("norm.weight");
  for (int64_t row = 0; row < rows; ++row) {
    float* to = y + gguf_row(c.arch, c.spec, item.from, row) * cols;
    for (int64_t col = 0; col < cols; ++col)
      to[col] = (item.turned ? x[col * rows + row] : x[row * cols + col]) + (shifted ? 1.0f : 0.0f);
  }
  put(c, item, writer, y, changed.size());
}

/// A tensor of the source's file that has its type already: read once, which says whether its numbers are finite.
void write_copy(const Conversion& c, const Item& item, const GgufTensor& stored, GgufWriter& writer) {
  read_tiles(c, item, [](const float*, int64_t) {});
  const std::span<const std::byte> blocks = c.file->data(stored);
  writer.write_blocks(item.to.name, blocks.data(), blocks.size());
}

void write_item(const Conversion& c, const Item& item, GgufWriter& writer) {
  const Shape& shape = item.to.shape;
  if (const GgufTensor* stored = c.stored(item); stored && stored->type == item.to.type)
    return write_copy(c, item, *stored, writer);
  if (shape.rank() == 1 || item.turned || gguf_moves_rows(c.arch, item.from)) return write_changed(c, item, writer);
  read_tiles(c, item, [&](const float* numbers, int64_t count) { put(c, item, writer, numbers, count); });
}

void put_keys(const Conversion& c, const OrderedJson& config, GgufMetadataBuilder& metadata) {
  for (const GgufArch::Key& key : c.arch.keys) {
    const auto value = config.find(key.config);
    const std::string name = std::string(c.arch.name) + "." + key.gguf;
    if (value == config.end() || value->is_null()) continue;
    if (key.kind == GgufArch::Key::kInteger) metadata.put(name, uint32_t(value->get<int64_t>()));
    if (key.kind == GgufArch::Key::kNumber) metadata.put(name, float(value->get<double>()));
    if (key.kind == GgufArch::Key::kBool) metadata.put(name, value->get<bool>());
  }
}

void put_rope(const Conversion& c, GgufMetadataBuilder& metadata) {
  const std::string prefix = std::string(c.arch.name) + ".rope.";
  if (c.spec.rotary() == 0) return;
  metadata.put(prefix + "dimension_count", uint32_t(c.spec.rotary()));
  const RopeScaling& scaling = c.spec.rope_scaling;
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      break;
    case RopeScaling::Kind::kLinear:
      metadata.put(prefix + "scaling.type", "linear");
      metadata.put(prefix + "scaling.factor", float(scaling.factor));
      break;
    case RopeScaling::Kind::kYarn:
      metadata.put(prefix + "scaling.type", "yarn");
      metadata.put(prefix + "scaling.factor", float(scaling.factor));
      metadata.put(prefix + "scaling.original_context_length", uint32_t(scaling.original_positions));
      break;
    case RopeScaling::Kind::kLlama3:
      metadata.put(prefix + "scaling.original_context_length", uint32_t(scaling.original_positions));
      break;  // and the tensor of factors
    default:
      throw error(Code::kUnsupported, "converting {}: its rope scaling cannot be written in GGUF", c.from);
  }
}

std::vector<float> rope_factors(const ArchSpec& spec) {
  std::vector<float> factors(size_t(spec.rotary() / 2));
  for (size_t j = 0; j < factors.size(); ++j)
    factors[j] = float(llama3_rope_divisor(spec.rope_theta, double(j) / double(factors.size()), spec.rope_scaling));
  return factors;
}

/// The template stands in a file of its own, or in tokenizer_config.json.
std::optional<std::string> chat_template_of(const std::string& folder) {
  const std::string file = folder + "/chat_template.jinja", config_file = folder + "/tokenizer_config.json";
  if (is_file(file)) return read_file(file, size_t{1} << 24);
  if (!is_file(config_file)) return std::nullopt;
  const Json config = read_json_file(config_file, size_t{1} << 28);
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  return found != config.end() && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

/// What ends a text beside `eos`: GGUF has keys for two more ids, which every program takes so.
void put_more_ends(const ArchSpec& spec, std::optional<int64_t> eos, GgufMetadataBuilder& metadata) {
  std::vector<int64_t> ends = spec.more_eos;
  if (spec.eos) ends.insert(ends.begin(), *spec.eos);
  if (eos) std::erase(ends, *eos);
  constexpr const char* kKeys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  for (size_t i = 0; i < std::min(ends.size(), std::size(kKeys)); ++i) metadata.put(kKeys[i], uint32_t(ends[i]));
}

void put_texts(const Conversion& c, GgufMetadataBuilder& metadata) {
  if (c.file) {
    for (const std::string_view key : c.file->metadata().keys())
      if (key.starts_with("tokenizer.")) metadata.put(key, *c.file->metadata().find(key));
    return;
  }
  if (!tokenizer_file(c.from)) {
    if (c.spec.bos) metadata.put("tokenizer.ggml.bos_token_id", uint32_t(*c.spec.bos));
    if (c.spec.eos) metadata.put("tokenizer.ggml.eos_token_id", uint32_t(*c.spec.eos));
    return put_more_ends(c.spec, c.spec.eos, metadata);
  }
  const Tokenizer tokenizer = Tokenizer::load(c.from);
  put_tokenizer(tokenizer, c.spec.vocab, c.from, metadata);
  put_more_ends(c.spec, tokenizer.eos(), metadata);
  if (const auto text = chat_template_of(c.from)) metadata.put("tokenizer.chat_template", *text);
}

GgufMetadataBuilder metadata_of(const Conversion& c, const OrderedJson& config, const std::string& to,
                                const GgufRecipe& recipe) {
  GgufMetadataBuilder metadata;
  const std::string prefix = std::string(c.arch.name) + ".";
  metadata.put("general.architecture", c.arch.name);
  metadata.put("general.type", "model");
  metadata.put("general.name", fs::path(to).stem().string());
  put_keys(c, config, metadata);
  if (c.spec.rotary() > 0) metadata.put(prefix + "attention.value_length", uint32_t(c.spec.head_size));
  metadata.put(prefix + "vocab_size", uint32_t(c.spec.vocab));
  put_rope(c, metadata);
  metadata.put("general.file_type", recipe.file_type);
  metadata.put("general.quantization_version", 2u);
  put_texts(c, metadata);
  return metadata;
}

/// The first field in which two configurations differ, with both values.
std::string difference(const OrderedJson& written, const OrderedJson& read) {
  for (const auto& [key, value] : written.items()) {
    const auto other = read.find(key);
    if (other == read.end() || *other != value)
      return fmt::format("'{}' is {}, and would be read as {}", key, value.dump(),
                         other == read.end() ? "nothing" : other->dump());
  }
  return "its configuration would be read as another";
}

/// GGUF leaves to each program what it has no key for (which layers have a window, what scales the scores), so the
/// file is read back before it gets its name.
void check_reads_back(const Conversion& c, const std::string& written) {
  ArchSpec read = load_spec(written);
  read.bos = c.spec.bos;  // the tokenizer's, which may know better than config.json
  read.eos = c.spec.eos;
  read.more_eos = c.spec.more_eos;
  if (read == c.spec) return;
  throw error(Code::kUnsupported, "converting {}: GGUF cannot say its {}. Keep it in the Hugging Face format", c.from,
              difference(write_config(c.spec, DType::kF32), write_config(read, DType::kF32)));
}

}  // namespace

std::vector<GgufFallback> save_gguf(Context& ctx, const std::string& from, const std::string& to,
                                    const SaveGgufOptions& options) {
  const ArchSpec spec = load_spec(from);
  const std::unique_ptr<WeightSource> source = open_weight_source(from, spec);
  check_weights(*source, spec);
  const OrderedJson config = write_config(spec, DType::kF32);
  const std::optional<GgufFile> file = is_gguf(from) ? std::optional(GgufFile::open(from)) : std::nullopt;
  const Conversion c{ctx, from, spec, arch_for(config, from), *source, file ? &*file : nullptr};
  const std::vector<Item> items = items_of(c, options);
  if (!options.requantise) refuse_requantising(c, items);
  std::vector<PlannedGgufTensor> plan;
  const bool factors = spec.rope_scaling.kind == RopeScaling::Kind::kLlama3;
  if (factors) plan.push_back({kRopeFactors, GgmlType::kF32, {spec.rotary() / 2}});
  for (const Item& item : items) plan.push_back(item.to);
  GgufWriter writer(to, metadata_of(c, config, to, recipe_for(options.dtype)), plan);
  if (factors) {
    const std::vector<float> numbers = rope_factors(spec);
    writer.write(kRopeFactors, numbers.data(), int64_t(numbers.size()));
  }
  for (const Item& item : items) write_item(c, item, writer);
  writer.close(options.sync);
  check_reads_back(c, writer.temporary());
  writer.publish();
  return fallbacks_of(items);
}

}  // namespace espalier
