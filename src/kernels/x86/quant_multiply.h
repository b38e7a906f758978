// Products of quantised panels, one function an instruction set. What they compute is in kernels/quant_gemm.h.
#pragma once
#include "kernels/quant_panels.h"
#include "kernels/quant_rows.h"

namespace espalier {

/// An instruction set's product: out[t * 16 + row] for the rows t of the tile and the 16 rows of a panel of `cols`
/// columns.
struct QuantMultiply {
  int tile_rows;  ///< at most, of a tile
  void (*panel)(PanelKind kind, const std::byte* panel, const QuantTile& x, float* out, int64_t cols);
};

/// True where the processor multiplies bytes itself in 512-bit vectors (AVX-512 VNNI). ESP_VNNI=off says no.
bool has_vnni();

extern const QuantMultiply kQuantVnni, kQuantAvx2;

}  // namespace espalier
