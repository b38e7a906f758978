// `espalier convert A B`: a model written anew, in another format, another dtype or in other shards.
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/human.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "formats/hf_folder.h"
#include "models/companions.h"
#include "models/gguf_recipe.h"
#include "models/load.h"
#include "models/resize.h"
#include "models/save.h"
#include "models/save_gguf.h"
#include "text/extend_vocabulary.h"

namespace espalier {

extern const Verb kConvert;

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string from, to, dtype = "f32";
  double max_shard_mb = 5000;
  std::vector<std::string> new_tokens;
  int64_t vocab_multiple = 1;
  std::string head_dtype = "as-dtype";
  bool requantize = false;
  void visit(Fields& f) {
    f.field("from", from, "Hugging Face folder, .gguf, run folder, or the id of a model in the cache");
    f.field("to", to, "Hugging Face folder to write, or a file whose name ends in .gguf");
    f.choice("dtype", dtype,
             {"f32", "bf16", "f16", "q8_0", "q6_k", "q5_k_m", "q5_k", "q5_1", "q5_0", "q4_k_m", "q4_k", "q4_1", "q4_0",
              "iq4_nl", "q3_k_m", "q3_k", "q2_k"},
             "of the weights written; those with a q for .gguf only. In a mix, _m, some matrices get more bits");
    f.choice("head_dtype", head_dtype,
             {"as-dtype", "f32", "bf16", "f16", "q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0",
              "iq4_nl", "q3_k", "q2_k"},
             "of the output head and the token embedding of a .gguf; as-dtype: what --dtype says");
    f.field("requantize", requantize, "round weights that are quantised already to fewer bits; worse than from the "
            "original weights");
    f.field("max_shard_mb", max_shard_mb, "largest file of weights of a folder, in MB", 0, 1e9);
    f.field("new_tokens", new_tokens, "special tokens that the model gets; their rows begin as the mean row");
    f.field("vocab_multiple", vocab_multiple, "round the rows of the vocabulary up to a multiple of this", 1, 1 << 20);
  }
};

/// The model with a vocabulary that has room for the new tokens, which its tokenizer gets.
std::unique_ptr<Decoder> load_grown(Terminal& terminal, const std::string& from, const Options& options,
                                    Companions& companions) {
  const std::optional<Tokenizer> tokenizer = companions.load_tokenizer();
  if (!tokenizer && !options.new_tokens.empty())
    throw error(Code::kUsage, "converting {}: it has no tokenizer that could get new tokens", from);
  ArchSpec spec = load_spec(from);
  int64_t known = spec.vocab, tokens = spec.vocab;
  if (tokenizer) {
    companions.tokenizer = with_added_tokens(*tokenizer, options.new_tokens);
    known = tokenizer->vocab_size();
    tokens = companions.tokenizer->vocab_size();
  }
  const VocabularyGrowth growth = grow_vocabulary(spec.vocab, known, tokens, options.vocab_multiple);
  spec.vocab = growth.rows;
  validate(spec, from);
  auto model = std::make_unique<Decoder>(spec, one_process_mesh(), DType::kF32, false);
  load_grown_weights(terminal.context(), *model, from, growth);
  terminal.log().info("{}: {} tokens, they were {}; {} rows, they were {}", options.to, tokens, known, growth.rows,
                      growth.stored);
  return model;
}

bool is_float(const std::string& dtype) { return dtype == "f32" || dtype == "bf16" || dtype == "f16"; }

/// "180 of Q4_K (blk.0.attn_q.weight, ...) as Q5_0"
std::string fallback_text(const std::vector<GgufFallback>& fallbacks) {
  std::string text;
  for (const GgufFallback& f : fallbacks)
    text += fmt::format("{}{} of {} ({}{}) as {}", text.empty() ? "" : ", ", f.names.size(),
                        ggml_type_name(f.wanted), f.names[0], f.names.size() > 1 ? ", ..." : "",
                        ggml_type_name(f.given));
  return text;
}

void write_gguf(Terminal& terminal, const std::string& from, const Options& options) {
  SaveGgufOptions save{.dtype = options.dtype, .requantise = options.requantize};
  if (options.head_dtype != "as-dtype") save.head = find_gguf_recipe(options.head_dtype)->type;
  const std::vector<GgufFallback> fallbacks = save_gguf(terminal.context(), from, options.to, save);
  if (!fallbacks.empty())
    terminal.log().info("{}: matrices whose rows are not whole blocks are written in another type: {}", options.to,
                        fallback_text(fallbacks));
  terminal.log().info("wrote {} in {}, {}", options.to, options.dtype, human_bytes(fs::file_size(options.to)));
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kConvert, args, ESP_CONFIG(options))) return 0;
  const std::string from = find_model(options.from);
  std::error_code ignored;
  if (fs::equivalent(from, options.to, ignored))
    throw error(Code::kUsage, "converting {}: it would replace itself; give another folder to write", from);
  const bool grows = !options.new_tokens.empty() || options.vocab_multiple > 1;
  if (options.to.ends_with(".gguf")) {
    if (grows)
      throw error(Code::kUsage, "converting to {}: a vocabulary grows on the way to a folder; make .gguf of "
                  "that one", options.to);
    write_gguf(terminal, from, options);
    return 0;
  }
  if (!is_float(options.dtype))
    throw error(Code::kUsage, "converting to {}: {} is a type of GGUF; give a name that ends in .gguf, or another "
                "--dtype", options.to, options.dtype);
  if (options.head_dtype != "as-dtype")
    throw error(Code::kUsage, "converting to {}: --head-dtype is for .gguf files; all weights of a folder have one "
                "dtype", options.to);
  // A folder is replaced as a whole: that of a model may be, a home or a run may not.
  if (is_folder(options.to) && !list_folder(options.to).empty() && !is_file(options.to + "/config.json"))
    throw error(Code::kUsage, "converting to {}: the folder holds other things than a model; give another one",
                options.to);
  Companions companions = Companions::of(from);
  const auto model =
      grows ? load_grown(terminal, from, options, companions) : open_model(terminal, from, {.dtype = "f32"});
  save_model(terminal.context(), *model, options.to,
             {.dtype = parse_dtype(options.dtype), .max_shard_bytes = uint64_t(options.max_shard_mb * 1e6)});
  companions.save(options.to);
  terminal.log().info("wrote {} in {}", options.to, options.dtype);
  return 0;
}

}  // namespace

const Verb kConvert = {"convert", "Make", "write a model anew: as a folder or as .gguf, in another dtype", "from to",
                       "espalier convert runs/demo demo-bf16 --dtype bf16\n"
                       "espalier convert runs/demo demo.gguf --dtype q4_k_m\n"
                       "espalier convert runs/demo demo-act --new-tokens '[\"<act>\", \"</act>\"]'", run};

}  // namespace espalier
