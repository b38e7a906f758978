// Comparing two models tensor by tensor, as their files have them: no architecture needs to be known.
#pragma once
#include <string>
#include <vector>

#include "base/context.h"
#include "formats/safetensors.h"

namespace espalier {

enum class DiffKind {
  kSame,    ///< the same numbers, bit for bit
  kDType,   ///< the same numbers in another dtype
  kValues,  ///< other numbers
  kShape,   ///< another shape; nothing is measured
  kOnlyA,
  kOnlyB,
};
/// "same", "dtype", "values", "shape", "only A", "only B"
const char* diff_kind_name(DiffKind kind);

/// b against a. The distances are in f64 over the numbers; NaN in either makes them NaN.
struct TensorDiff {
  std::string name;
  DiffKind kind = DiffKind::kSame;
  Shape shape_a, shape_b;
  DType dtype_a = DType::kF32, dtype_b = DType::kF32;
  double max_abs = 0;      ///< max |b - a|
  double relative_l2 = 0;  ///< |b - a| / |a|; infinite where a is all zero and b is not
  double cosine = 1;       ///< a . b / (|a| |b|)
};

struct ModelDiff {
  std::vector<TensorDiff> tensors;  ///< farthest first: missing ones and other shapes, then by relative L2, then name
  int64_t same = 0;
  double relative_l2 = 0;  ///< over all numbers that both have

  bool identical() const { return same == int64_t(tensors.size()); }
};

/// Floating-point and integer tensors of any dtype that safetensors has are compared by value.
ModelDiff diff_models(Context& ctx, const SafetensorsFolder& a, const SafetensorsFolder& b);

}  // namespace espalier
