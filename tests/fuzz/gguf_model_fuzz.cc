// Models in GGUF: whatever is accepted becomes a model, whose memory the file's own tensors bound.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "formats/test_folder.h"
#include "fuzz.h"
#include "models/gguf_tokenizer.h"
#include "models/init.h"
#include "models/load.h"
#include "models/registry.h"
#include "models/save.h"
#include "models/save_gguf.h"
#include "models/weight_source.h"

namespace {

using namespace espalier;

struct Machine {
  ThreadPool pool{1};
  Context ctx{pool, silent_log(), choose_isa()};
};

Machine& machine() {
  static Machine m;
  return m;
}

/// A file without a name; the same for all inputs.
struct MemoryFile {
  int fd = ::memfd_create("input", 0);
  std::string path = "/proc/self/fd/" + std::to_string(fd);

  void put(const uint8_t* data, size_t size) const {
    if (fd < 0 || ::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != ssize_t(size)) std::abort();
  }
};

void check(const std::string& path, size_t file_bytes) {
  const ArchSpec spec = load_spec(path);
  check_weights(*open_weight_source(path, spec), spec);
  // The smallest types hold a number in two bits, and a head may be tied.
  if (parameter_count(spec) > int64_t(8 * file_bytes)) std::abort();
  if (parameter_count(spec) < 1 << 16) load_model(machine().ctx, one_process_mesh(), path, {});
}

template <class F>
void expect_no_crash(F&& f) {
  try {
    f();
  } catch (const Error&) {  // the edge: an Error is a right answer to bad input
  }
}

std::string gguf_of(const char* config) {
  const TestFolder folder;
  const ArchSpec spec = read_config(parse_json(config, "seed"), "seed");
  Decoder model(spec, one_process_mesh(), DType::kF32, true);
  initialise(machine().ctx, model, 1);
  save_model(machine().ctx, model, folder / "m", {.sync = false});
  save_gguf(machine().ctx, folder / "m", folder / "m.gguf", {.sync = false});
  return read_file(folder / "m.gguf");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  file.put(data, size);
  expect_no_crash([&] { check(file.path, size); });
  expect_no_crash([&] { load_tokenizer(file.path); });
  expect_no_crash([&] { load_chat_template(file.path); });
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      gguf_of(R"({"model_type":"llama","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,"vocab_size":5,)"
              R"("num_key_value_heads":1,"intermediate_size":9,"rope_scaling":{"rope_type":"llama3","factor":8.0,)"
              R"("high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":16}})"),
      gguf_of(R"({"model_type":"qwen3","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,"vocab_size":5,)"
              R"("intermediate_size":9,"head_dim":4,"rope_scaling":{"rope_type":"linear","factor":2.0}})"),
      gguf_of(R"({"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2,"vocab_size":5,"n_positions":16})"),
      gguf_of(R"({"model_type":"gpt_neox","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,)"
              R"("intermediate_size":9,"vocab_size":5,"rotary_pct":0.5})"),
      gguf_of(R"({"model_type":"gemma3_text","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,)"
              R"("num_key_value_heads":1,"head_dim":4,"intermediate_size":9,"vocab_size":5,"sliding_window":4,)"
              R"("query_pre_attn_scalar":4})"),
      gguf_of(R"({"model_type":"phi3","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2,"vocab_size":5,)"
              R"("num_key_value_heads":2,"intermediate_size":9,"max_position_embeddings":16})"),
  };
}
