// From the blocks of a GGUF tensor to the panels that products read (kernels/quant_panels.h): the same numbers and
// scales in another order, nothing rounded.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "formats/gguf_types.h"
#include "kernels/quant_panels.h"

namespace espalier {

/// The kind of panel that holds a type's blocks; nothing for f32, f16, bf16 and what we do not read.
std::optional<PanelKind> panel_kind(GgmlType type);

/// Packs 16 rows of `cols` numbers; a null row is zeros. Writes panel_bytes(panel_kind(type), cols), zeros where a unit
/// is not full. False where a scale is not finite; the panel is then of no use.
bool pack_panel(GgmlType type, std::span<const std::byte* const, kPanelRows> rows, int64_t cols, std::byte* out);

}  // namespace espalier
