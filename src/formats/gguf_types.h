// The element types of GGUF tensors: their numbers, names and block sizes. A type packs its elements into blocks of
// fixed size, and a row of a tensor is whole blocks. What a block holds is in formats/gguf_blocks.h.
#pragma once
#include <cstdint>
#include <string_view>

namespace espalier {

/// ggml's types by their numbers in the file, those that we read; the others are in the table only, so that files with
/// them can be inspected.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
};

struct GgmlTypeInfo {
  GgmlType type;
  const char* name;  ///< as ggml prints it: "Q4_K"
  int32_t elements;  ///< of a block
  int32_t bytes;     ///< of a block
};

/// nullptr for a number that we do not know.
const GgmlTypeInfo* find_ggml_type(uint32_t number);
/// The row of a known type.
const GgmlTypeInfo& ggml_type_info(GgmlType type);
/// "Q4_K"
inline const char* ggml_type_name(GgmlType type) { return ggml_type_info(type).name; }

}  // namespace espalier
