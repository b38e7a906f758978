// `espalier convert A B`: a model written anew, in another format, another dtype or in other shards.
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "models/save.h"
#include "models/save_gguf.h"

namespace espalier {

extern const Verb kConvert;

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string from, to, dtype = "f32";
  double max_shard_mb = 5000;
  void visit(Fields& f) {
    f.field("from", from, "Hugging Face folder, .gguf, run folder, or the id of a model in the cache");
    f.field("to", to, "Hugging Face folder to write, or a file whose name ends in .gguf");
    f.choice("dtype", dtype, {"f32", "bf16", "f16", "q8_0"}, "of the weights written; q8_0 for .gguf only");
    f.field("max_shard_mb", max_shard_mb, "largest file of weights of a folder, in MB", 0, 1e9);
  }
};

// The tokenizer and what else speaks of the text, as it is.
void copy_companions(const std::string& from, const std::string& to) {
  for (const std::string& path : list_folder(from)) {
    const std::string name = fs::path(path).filename();
    const bool text = name.ends_with(".json") || name == "chat_template.jinja";
    if (!is_file(path) || name == "config.json" || !text || name.ends_with(".index.json")) continue;
    copy_file(path, to + "/" + name);
  }
}

// The same out of a GGUF, where it has them. Read before anything is written: its kind may be one that we do not know.
struct Companions {
  std::optional<Tokenizer> tokenizer;
  std::optional<std::string> chat_template;

  explicit Companions(const std::string& from) {
    const GgufFile file = GgufFile::open(from);
    if (file.metadata().find("tokenizer.ggml.tokens")) tokenizer = load_gguf_tokenizer(file);
    chat_template = gguf_chat_template(file);
  }
  void save(const std::string& to) const {
    if (tokenizer) tokenizer->save(to);
    if (chat_template) write_file_atomic(to + "/chat_template.jinja", *chat_template);
  }
};

GgmlType gguf_type(const std::string& dtype) {
  if (dtype == "q8_0") return GgmlType::kQ8_0;
  if (dtype == "f16") return GgmlType::kF16;
  return dtype == "bf16" ? GgmlType::kBF16 : GgmlType::kF32;
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kConvert, args, ESP_CONFIG(options))) return 0;
  const std::string from = find_model(options.from);
  std::error_code ignored;
  if (fs::equivalent(from, options.to, ignored))
    throw error(Code::kUsage, "converting {}: it would replace itself; give another folder to write", from);
  if (options.to.ends_with(".gguf")) {
    save_gguf(terminal.context(), from, options.to, {.type = gguf_type(options.dtype)});
    terminal.log().info("wrote {} in {}", options.to, options.dtype);
    return 0;
  }
  if (options.dtype == "q8_0")
    throw error(Code::kUsage, "converting to {}: q8_0 is a type of GGUF; give a name that ends in .gguf, or another "
                "--dtype", options.to);
  // A folder is replaced as a whole: that of a model may be, a home or a run may not.
  if (is_folder(options.to) && !list_folder(options.to).empty() && !is_file(options.to + "/config.json"))
    throw error(Code::kUsage, "converting to {}: the folder holds other things than a model; give another one",
                options.to);
  std::optional<Companions> companions;
  if (is_gguf(from)) companions.emplace(from);
  const auto model = open_model(terminal, from, "f32");
  save_model(terminal.context(), *model, options.to,
             {.dtype = parse_dtype(options.dtype), .max_shard_bytes = uint64_t(options.max_shard_mb * 1e6)});
  if (companions)
    companions->save(options.to);
  else
    copy_companions(from, options.to);
  terminal.log().info("wrote {} in {}", options.to, options.dtype);
  return 0;
}

}  // namespace

const Verb kConvert = {"convert", "Make", "write a model anew: as a folder or as .gguf, in another dtype", "from to",
                       "espalier convert runs/demo demo-bf16 --dtype bf16\n"
                       "espalier convert runs/demo demo.gguf --dtype q8_0", run};

}  // namespace espalier
