#include "models/gguf_recipe.h"

#include <charconv>

namespace espalier {
namespace {

// File types: the enumeration llama_ftype of llama.h. A K type without a letter is what llama.cpp calls "small".
constexpr GgufRecipe kRecipes[] = {
    {"f32", GgmlType::kF32, 0},
    {"f16", GgmlType::kF16, 1},
    {"bf16", GgmlType::kBF16, 32},
    {"q8_0", GgmlType::kQ8_0, 7},
    {"q6_k", GgmlType::kQ6_K, 18},
    {"q5_k_m", GgmlType::kQ5_K, 17, GgmlType::kQ6_K, GgmlType::kQ6_K},
    {"q5_k", GgmlType::kQ5_K, 16},
    {"q5_1", GgmlType::kQ5_1, 9},
    {"q5_0", GgmlType::kQ5_0, 8},
    {"q4_k_m", GgmlType::kQ4_K, 15, GgmlType::kQ6_K, GgmlType::kQ6_K},
    {"q4_k", GgmlType::kQ4_K, 14},
    {"q4_1", GgmlType::kQ4_1, 3},
    {"q4_0", GgmlType::kQ4_0, 2},
    {"iq4_nl", GgmlType::kIQ4_NL, 25},
    {"q3_k_m", GgmlType::kQ3_K, 12, GgmlType::kQ6_K, GgmlType::kQ4_K},
    {"q3_k", GgmlType::kQ3_K, 11},
    {"q2_k", GgmlType::kQ2_K, 10},
};

/// 3 of "blk.3.attn_v.weight".
int64_t layer_of(std::string_view name) {
  int64_t layer = 0;
  constexpr size_t kPrefix = std::string_view("blk.").size();
  std::from_chars(name.data() + std::min(kPrefix, name.size()), name.data() + name.size(), layer);
  return layer;
}

/// Half of the layers: those near the ends, through which all that is read and said goes, and every third between.
bool is_sensitive(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= layers - eighth || (layer - eighth) % 3 == 2;
}

GgmlType type_in_mix(const GgufRecipe& recipe, std::string_view name, int64_t layers) {
  const auto is = [&](std::string_view part) { return name.find(part) != name.npos; };
  const int64_t layer = layer_of(name);
  // Queries, keys and values in one matrix: between what its parts would get.
  if (is(".attn_qkv.")) return recipe.type == GgmlType::kQ4_K ? GgmlType::kQ5_K : *recipe.sensitive;
  if (recipe.type == GgmlType::kQ3_K) {
    if (is(".attn_v.") || is(".ffn_down.")) return layer < layers / 8 ? GgmlType::kQ5_K : *recipe.sensitive;
    return is(".attn_output.") ? *recipe.sensitive : recipe.type;
  }
  return (is(".attn_v.") || is(".ffn_down.")) && is_sensitive(layer, layers) ? *recipe.sensitive : recipe.type;
}

}  // namespace

std::span<const GgufRecipe> gguf_recipes() { return kRecipes; }

const GgufRecipe* find_gguf_recipe(std::string_view name) {
  for (const GgufRecipe& recipe : kRecipes)
    if (recipe.name == name) return &recipe;
  return nullptr;
}

GgmlType gguf_type_of(const GgufRecipe& recipe, std::string_view name, const Shape& shape, const ArchSpec& spec,
                      std::optional<GgmlType> head) {
  if (shape.rank() < 2 || name == "position_embd.weight") return GgmlType::kF32;
  const bool embedding = name == "token_embd.weight", output = name == "output.weight";
  if (embedding || output) {
    if (head) return *head;
    return recipe.head && (output || spec.tied_head) ? *recipe.head : recipe.type;
  }
  return recipe.sensitive ? type_in_mix(recipe, name, spec.layers) : recipe.type;
}

GgmlType fitting_type(GgmlType type, int64_t cols) {
  if (cols % ggml_type_info(type).elements == 0) return type;
  switch (type) {
    case GgmlType::kQ2_K:
    case GgmlType::kQ3_K:
      return fitting_type(GgmlType::kIQ4_NL, cols);
    case GgmlType::kQ4_K:
      return fitting_type(GgmlType::kQ5_0, cols);
    case GgmlType::kQ5_K:
      return fitting_type(GgmlType::kQ5_1, cols);
    case GgmlType::kQ6_K:
      return fitting_type(GgmlType::kQ8_0, cols);
    default:
      return GgmlType::kF16;
  }
}

double bits_of(GgmlType type) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  return 8.0 * info.bytes / info.elements;
}

bool is_quantised(GgmlType type) { return ggml_type_info(type).elements > 1; }

}  // namespace espalier
