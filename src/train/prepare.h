// Preparing text: files, folders and JSONL to token shards that the trainer maps. One pass (two where the tokenizer is
// trained here): parts of documents are read, encoded by all threads, and written in order, so that memory stays flat
// and the result is the same bytes for any number of threads.
//
// OUT/ then holds train-00000.tokens, ..., val-00000.tokens, ..., tokenizer.json, tokenizer_config.json and
// prepare.json, which says what was made of what. All appear at once, when everything is done.
#pragma once
#include <string>
#include <vector>

#include "base/config.h"
#include "base/context.h"
#include "base/progress.h"
#include "tensor/dtype.h"

namespace espalier {

struct PrepareConfig {
  std::vector<std::string> inputs;
  std::string out, tokenizer;
  int64_t vocab_size = 8192, min_frequency = 2;
  std::string pattern = "gpt2";
  std::string format = "auto", text_field = "text", separator;
  bool skip_bad = false;
  std::vector<std::string> include, exclude;
  double val_fraction = 0.02;
  int64_t seed = 1, shard_tokens = 100'000'000;
  std::string dtype = "auto";
  bool end_token = true, begin_token = false, parse_special = false, overwrite = false;

  void visit(Fields& f) {
    f.field("inputs", inputs, "text files, JSONL files, folders and globs");
    f.field("out", out, "folder that is made: token shards, tokenizer.json, prepare.json");
    f.field("tokenizer", tokenizer, "tokenizer.json, or a model that has one; empty: train one on the inputs");
    f.field("vocab_size", vocab_size, "of the tokenizer trained here, bytes and special tokens included", 257, 1 << 22);
    f.field("min_frequency", min_frequency, "how often a pair must occur to become a token", 1);
    f.choice("pattern", pattern, {"gpt2", "llama3", "qwen2"}, "how the tokenizer trained here cuts text into pieces");
    f.choice("format", format, {"auto", "text", "jsonl"}, "of the inputs; auto: JSONL by extension, else text");
    f.field("text_field", text_field, "field of a JSONL object that holds the text");
    f.field("separator", separator, "a line that ends a document of a text file; empty: a file is a document");
    f.field("skip_bad", skip_bad, "pass over and count JSONL lines without that field, instead of stopping");
    f.field("include", include, "extensions of the files taken from folders; empty: every text file");
    f.field("exclude", exclude, "extensions of the files left out of folders");
    f.field("val_fraction", val_fraction, "share of the documents for validation; of a single text, its end", 0, 0.99);
    f.field("seed", seed, "of the choice of validation documents", 0);
    f.choice("dtype", dtype, {"auto", "u16", "i32"}, "of a token; auto: the narrowest that holds the vocabulary");
    f.field("shard_tokens", shard_tokens, "tokens of a shard, about", 1);
    f.field("end_token", end_token, "end each document with the tokenizer's end-of-text token");
    f.field("begin_token", begin_token, "begin each document with the tokenizer's beginning-of-text token");
    f.field("parse_special", parse_special, "special tokens written in a text are those tokens, not their letters");
    f.field("overwrite", overwrite, "replace a folder that `prepare` made before");
  }
};

struct PreparedShard {
  std::string file;  ///< within the folder
  int64_t tokens = 0, documents = 0;
};

/// What became of the documents of one purpose.
struct PreparedSplit {
  int64_t tokens = 0, documents = 0;
  std::vector<PreparedShard> shards;
};

struct PrepareResult {
  PreparedSplit train, val;
  int64_t files = 0, bytes = 0;
  int64_t bad_lines = 0, binary_files = 0;  ///< passed over
  int64_t vocab_size = 0;
  DType dtype = DType::kU16;
  double tokenizer_s = 0, encode_s = 0;
  int64_t batch_bytes_max = 0;  ///< most text and ids that were held at one time
};

/// Errors: kUsage (settings), kNotFound (inputs), kBadData (a line), kUnsupported (a tokenizer), kMismatch (an id that
/// does not fit), kIo, kNoSpace. Whatever happens, `out` is whole or as it was.
PrepareResult prepare(Context& context, Progress& progress, const PrepareConfig& config);

}  // namespace espalier
