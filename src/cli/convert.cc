// `espalier convert A B`: a model written anew, in another dtype or in other shards.
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "formats/hf_folder.h"
#include "models/save.h"

namespace espalier {

extern const Verb kConvert;

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string from, to, dtype = "f32";
  double max_shard_mb = 5000;
  void visit(Fields& f) {
    f.field("from", from, "Hugging Face folder, run folder, or the id of a model in the cache");
    f.field("to", to, "Hugging Face folder to write");
    f.choice("dtype", dtype, {"f32", "bf16", "f16"}, "of the weights written");
    f.field("max_shard_mb", max_shard_mb, "largest file of weights, in MB", 0, 1e9);
  }
};

// The tokenizer and what else speaks of the text, as it is.
void copy_companions(const std::string& from, const std::string& to) {
  for (const std::string& path : list_folder(from)) {
    const std::string name = fs::path(path).filename();
    if (!is_file(path) || name == "config.json" || !name.ends_with(".json") || name.ends_with(".index.json"))
      continue;
    copy_file(path, to + "/" + name);
  }
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kConvert, args, ESP_CONFIG(options))) return 0;
  const std::string from = find_model_folder(options.from);
  std::error_code ignored;
  if (fs::equivalent(from, options.to, ignored))
    throw error(Code::kUsage, "converting {}: it would replace itself; give another folder to write", from);
  // A folder is replaced as a whole: that of a model may be, a home or a run may not.
  if (is_folder(options.to) && !list_folder(options.to).empty() && !is_file(options.to + "/config.json"))
    throw error(Code::kUsage, "converting to {}: the folder holds other things than a model; give another one",
                options.to);
  const auto model = open_model(terminal, from, "f32");
  save_model(terminal.context(), *model, options.to,
             {.dtype = parse_dtype(options.dtype), .max_shard_bytes = uint64_t(options.max_shard_mb * 1e6)});
  copy_companions(from, options.to);
  terminal.log().info("wrote {} in {}", options.to, options.dtype);
  return 0;
}

}  // namespace

const Verb kConvert = {"convert", "Make", "write a model anew, in another dtype or in other shards", "from to",
                       "espalier convert runs/demo demo-bf16 --dtype bf16", run};

}  // namespace espalier
