#include "formats/gguf_types.h"

#include "base/check.h"

namespace espalier {
namespace {

// ggml's numbers; those between them are types that were given up.
constexpr GgmlTypeInfo kTypes[] = {
    {GgmlType::kF32, "F32", 1, 4},          {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kQ4_0, "Q4_0", 32, 18},      {GgmlType::kQ4_1, "Q4_1", 32, 20},
    {GgmlType::kQ5_0, "Q5_0", 32, 22},      {GgmlType::kQ5_1, "Q5_1", 32, 24},
    {GgmlType::kQ8_0, "Q8_0", 32, 34},      {GgmlType(9), "Q8_1", 32, 36},
    {GgmlType::kQ2_K, "Q2_K", 256, 84},     {GgmlType::kQ3_K, "Q3_K", 256, 110},
    {GgmlType::kQ4_K, "Q4_K", 256, 144},    {GgmlType::kQ5_K, "Q5_K", 256, 176},
    {GgmlType::kQ6_K, "Q6_K", 256, 210},    {GgmlType(15), "Q8_K", 256, 292},
    {GgmlType(16), "IQ2_XXS", 256, 66},     {GgmlType(17), "IQ2_XS", 256, 74},
    {GgmlType(18), "IQ3_XXS", 256, 98},     {GgmlType(19), "IQ1_S", 256, 50},
    {GgmlType::kIQ4_NL, "IQ4_NL", 32, 18},  {GgmlType(21), "IQ3_S", 256, 110},
    {GgmlType(22), "IQ2_S", 256, 82},       {GgmlType::kIQ4_XS, "IQ4_XS", 256, 136},
    {GgmlType(24), "I8", 1, 1},             {GgmlType(25), "I16", 1, 2},
    {GgmlType(26), "I32", 1, 4},            {GgmlType(27), "I64", 1, 8},
    {GgmlType(28), "F64", 1, 8},            {GgmlType(29), "IQ1_M", 256, 56},
    {GgmlType::kBF16, "BF16", 1, 2},        {GgmlType(34), "TQ1_0", 256, 54},
    {GgmlType(35), "TQ2_0", 256, 66},       {GgmlType(39), "MXFP4", 32, 17},
};

}  // namespace

const GgmlTypeInfo* find_ggml_type(uint32_t number) {
  for (const GgmlTypeInfo& info : kTypes)
    if (uint32_t(info.type) == number) return &info;
  return nullptr;
}

const GgmlTypeInfo& ggml_type_info(GgmlType type) {
  const GgmlTypeInfo* info = find_ggml_type(uint32_t(type));
  ESP_CHECK(info != nullptr, "GGUF tensor type {}", uint32_t(type));
  return *info;
}

}  // namespace espalier
