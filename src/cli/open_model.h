// What verbs that run a model share: from the name a user gave to a tokenizer and a decoder.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/terminal.h"
#include "models/decoder.h"
#include "text/tokenizer.h"

namespace espalier {

/// A tokenizer.json itself, or the one of a model (whatever find_model finds).
Tokenizer open_tokenizer(const std::string& model);

/// How a model's matrices are held, as flags of the verbs that run one.
struct ModelMemory {
  std::string dtype = "auto";
  bool mapped = false;
  void visit(Fields& f) {
    f.choice("dtype", dtype, {"auto", "f32", "bf16"},
             "of weights in memory; auto: as the files are, quantised weights of a .gguf in their blocks");
    f.field("mapped", mapped,
            "leave quantised weights in their file: ready at once, hardly any memory, slower (with --dtype auto)");
  }
};

/// The same for verbs whose model writes, and so remembers the keys and values of a text.
struct WriterMemory : ModelMemory {
  std::string cache_dtype = "f32";
  void visit(Fields& f) {
    ModelMemory::visit(f);
    f.choice("cache_dtype", cache_dtype, {"f32", "bf16", "q8"},
             "of the keys and values that are kept of a text: bf16 takes half of the memory, q8 little over a quarter");
  }
  CacheType cache_type() const { return parse_cache_type(cache_dtype); }
};

/// Loads the model at `folder` (find_model's).
std::unique_ptr<Decoder> open_model(Terminal& terminal, const std::string& folder, const ModelMemory& memory = {});

/// Adapters that a user names, "PATH" or "PATH=SCALE" each. Throws as LoraAdapter::load.
std::vector<LoraUse> open_adapters(Terminal& terminal, const std::vector<std::string>& given, const ArchSpec& spec);
constexpr const char* kLoraHelp = "adapters that change the model, PATH or PATH=SCALE each: folders of PEFT or .gguf";

/// All of standard input.
std::string read_stdin();

}  // namespace espalier
