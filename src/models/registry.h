// The architecture table: one row a model family. A new family is a row here and a file beside it.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "models/arch_spec.h"

namespace espalier {

/// A piece of one of our weights under its Hugging Face name: rows [row, row + rows) of ours (rows 0: all) are the
/// whole of theirs, or rows [their_row, their_row + rows) of their_rows.
struct TensorPart {
  std::string name;
  int64_t row = 0, rows = 0;
  bool transposed = false;  ///< theirs is [in, out] (GPT-2's Conv1D)
  int64_t their_row = 0, their_rows = 0;
};

struct Family {
  const char* model_type;    ///< "model_type" in config.json
  const char* architecture;  ///< "architectures" in config.json
  const char* summary;       ///< one line for `espalier list models`
  /// Fills a spec from config.json; a value we do not implement is an Error that names it.
  ArchSpec (*read_config)(const Json& config, const std::string& what);
  void (*write_config)(const ArchSpec& spec, OrderedJson& config);
  /// Which tensors of theirs make up the weight `ours` (weight_list's names). Parts of one tensor follow each other.
  std::vector<TensorPart> (*parts)(const ArchSpec& spec, std::string_view ours);
  /// True for tensors of theirs that are no weights (buffers that old files carry).
  bool (*ignored)(std::string_view name);
};

std::span<const Family* const> families();

/// The row of that name; Error kUnsupported naming the known ones otherwise.
const Family& family(std::string_view model_type, const std::string& what);

/// config.json to spec. Accepts our own "espalier_X" types: family X with parallel_block and sliding_window.
ArchSpec read_config(const Json& config, const std::string& what);
/// Spec to config.json. Llama with a window is written as Mistral. What no family's own type can express (a parallel
/// block, GPT-2 with a window) is written as "espalier_X", which other programs refuse instead of computing something
/// else. What is written is read back and compared; Error kUnsupported where even our own type cannot say it.
OrderedJson write_config(const ArchSpec& spec, DType dtype);

/// "layers.3.attention.qkv.weight" to 3 and "attention.qkv.weight"; -1 and the whole name outside layers.
struct LayerName {
  int64_t layer = -1;
  std::string_view rest;
};
LayerName layer_name(std::string_view ours);

}  // namespace espalier
