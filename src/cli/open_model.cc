#include "cli/open_model.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/human.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "formats/pickle.h"
#include "models/gguf_tokenizer.h"
#include "models/load.h"

namespace espalier {
namespace {

// bf16 only where nothing is lost by it: every matrix of the files is bf16.
DType stored_dtype(const std::string& folder) {
  if (is_gguf(folder)) {
    const GgufFile file = GgufFile::open(folder);
    for (const GgufTensor& tensor : file.tensors())
      if (tensor.shape.rank() == 2 && tensor.type != GgmlType::kBF16) return DType::kF32;
    return DType::kBF16;
  }
  const SafetensorsFolder files = open_weights(folder);
  for (const std::string& name : files.names()) {
    const TensorInfo& info = *files.find(name);
    if (info.shape.rank() == 2 && info.dtype != DType::kBF16) return DType::kF32;
  }
  return DType::kBF16;
}

}  // namespace

Tokenizer open_tokenizer(const std::string& model) {
  return load_tokenizer(is_file(model) && !is_pickle(model) ? model : find_model(model));
}

std::unique_ptr<Decoder> open_model(Terminal& terminal, const std::string& folder, const ModelMemory& memory) {
  const Stopwatch watch;
  const bool as_stored = memory.dtype == "auto";
  const DType type = as_stored ? stored_dtype(folder) : parse_dtype(memory.dtype);
  const Blocks blocks = !as_stored ? Blocks::kDequantise : memory.mapped ? Blocks::kMap : Blocks::kPack;
  auto model = load_model(terminal.context(), one_process_mesh(), folder, {.dtype = type, .blocks = blocks});
  const bool quantised = std::ranges::any_of(model->params(), [](const Param& p) { return bool(p.quantised); });
  terminal.log().info("{}: {} parameters, {}, loaded in {}", folder,
                      human_count(double(parameter_count(model->spec()))),
                      !quantised     ? std::string(dtype_name(type)) + " in memory"
                      : memory.mapped ? "quantised, in the file"
                                      : "quantised, in memory",
                      human_duration(watch.seconds()));
  return model;
}

std::vector<LoraUse> open_adapters(Terminal& terminal, const std::vector<std::string>& given, const ArchSpec& spec) {
  std::vector<LoraUse> uses;
  for (const std::string& text : given) {
    // A path may have a '=' of its own: what follows the last one is a scale where it is a number.
    const size_t equals = text.rfind('=');
    char* end = nullptr;
    const char* number = equals == std::string::npos ? "" : text.c_str() + equals + 1;
    const float scale = std::strtof(number, &end);
    const bool scaled = *number != '\0' && *end == '\0' && std::isfinite(scale);
    const std::string path = scaled ? text.substr(0, equals) : text;
    uses.push_back({LoraAdapter::load(path, spec), scaled ? scale : 1});
    terminal.log().info("{}: an adapter of {} parameters", path,
                        human_count(double(uses.back().adapter->parameters())));
  }
  return uses;
}

std::string read_stdin() {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0) throw errno_error("reading standard input");
    if (n == 0) return text;
    text.append(buffer, size_t(n));
  }
}

}  // namespace espalier
