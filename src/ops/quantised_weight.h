// QuantisedWeight: a matrix that stays in the blocks of its file, or in panels made of them. Only serving multiplies by
// it; nothing trains it.
#pragma once
#include <span>

#include "kernels/quant_panels.h"
#include "tensor/tensor.h"

namespace espalier {

class QuantisedWeight {
 public:
  virtual ~QuantisedWeight() = default;
  /// [out, in]
  virtual const Shape& shape() const = 0;
  /// All rows, for products; empty for a table that is only looked up.
  virtual std::span<const PanelRun> runs() const = 0;
  /// Row `row` as f32 [in].
  virtual void read_row(int64_t row, float* out) const = 0;
};

}  // namespace espalier
