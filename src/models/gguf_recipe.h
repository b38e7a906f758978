// Which tensor of a .gguf gets which type: the names that users of llama.cpp know (q4_0, q4_k_m, ...) as rows of a
// table.
//
// A plain name is the type of all matrices. A mix (q3_k_m, q4_k_m, q5_k_m) gives more bits to those whose rounding is
// known to hurt most: the output head, and the values of attention and the last matrix of the feed-forward part, whose
// sums go into the residual stream unsmoothed. q4_k_m and q5_k_m do so in half of the layers, the first eighth, the
// last eighth and every third between; q3_k_m in all, in the first eighth with one bit more, and in attention's output.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/gguf_types.h"
#include "models/arch_spec.h"
#include "tensor/tensor.h"

namespace espalier {

struct GgufRecipe {
  const char* name;    ///< "q4_k_m"
  GgmlType type;       ///< of matrices
  uint32_t file_type;  ///< llama.cpp's number for it, which general.file_type says
  /// Of a mix: what the output head gets, and what the sensitive matrices get.
  std::optional<GgmlType> head = std::nullopt, sensitive = std::nullopt;
};

std::span<const GgufRecipe> gguf_recipes();
/// nullptr where there is no such row.
const GgufRecipe* find_gguf_recipe(std::string_view name);

/// The type of the tensor `name` (GGUF's: "blk.3.attn_v.weight") of this model. Vectors and learned positions are F32;
/// `head`, where given, is the type of the output head and of the token embedding.
GgmlType gguf_type_of(const GgufRecipe& recipe, std::string_view name, const Shape& shape, const ArchSpec& spec,
                      std::optional<GgmlType> head = std::nullopt);

/// The same where rows of `cols` numbers are whole blocks of it; otherwise a type of blocks of 32 with at least its
/// bits (Q2_K, Q3_K -> IQ4_NL, Q4_K -> Q5_0, Q5_K -> Q5_1, Q6_K -> Q8_0), or F16 where that does not fit either.
GgmlType fitting_type(GgmlType type, int64_t cols);

/// Bits a number, scales included: 4.5 of Q4_K.
double bits_of(GgmlType type);
/// True for the types that are not floats.
bool is_quantised(GgmlType type);

}  // namespace espalier
