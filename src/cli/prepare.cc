// `espalier prepare FILES... --out FOLDER`: text to a tokenizer and token shards.

#include "base/human.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "train/prepare.h"

namespace espalier {

extern const Verb kPrepare;

namespace {

struct Options {
  PrepareConfig prepare;
  bool json = false;
  void visit(Fields& f) {
    prepare.visit(f);
    f.field("json", json, "one JSON object");
  }
};

OrderedJson split_json(const PreparedSplit& split) {
  return {{"tokens", split.tokens}, {"documents", split.documents}, {"shards", split.shards.size()}};
}

void print_json(Terminal& terminal, const PrepareConfig& config, const PrepareResult& r) {
  OrderedJson json = {{"out", config.out},           {"train", split_json(r.train)},
                      {"val", split_json(r.val)},    {"files", r.files},
                      {"bytes", r.bytes},            {"bad_lines", r.bad_lines},
                      {"binary_files", r.binary_files}, {"vocab_size", r.vocab_size},
                      {"dtype", dtype_name(r.dtype)}, {"tokenizer_s", r.tokenizer_s},
                      {"encode_s", r.encode_s}};
  terminal.print("{}\n", json.dump());
}

void print_text(Terminal& terminal, const PrepareConfig& config, const PrepareResult& r) {
  terminal.print("{} files, {} of text, vocabulary {} as {}\n", r.files, human_bytes(double(r.bytes)), r.vocab_size,
                 dtype_name(r.dtype));
  for (const auto& [name, split] : {std::pair{"train", &r.train}, std::pair{"val", &r.val}})
    terminal.print("  {:<5}  {} tokens, {} documents, {} shards\n", name, human_count(double(split->tokens)),
                   split->documents, split->shards.size());
  if (config.tokenizer.empty()) terminal.print("  tokenizer trained in {:.1f} s\n", r.tokenizer_s);
  terminal.print("  encoded at {:.1f} MB/s\n", double(r.bytes) / 1e6 / std::max(r.encode_s, 1e-9));
  if (r.binary_files > 0) terminal.print("  passed over {} files that are not text\n", r.binary_files);
  if (r.bad_lines > 0) terminal.print("  passed over {} bad lines\n", r.bad_lines);
  const std::string val = r.val.tokens > 0 ? fmt::format(" --data.val '{}/val-*.tokens'", config.out) : "";
  terminal.print("\nnext: espalier train RECIPE.toml --data.train '{}/train-*.tokens'{}\n", config.out, val);
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kPrepare, args, ESP_CONFIG(options))) return 0;
  const PrepareResult result = prepare(terminal.context(), terminal.progress(), options.prepare);
  if (options.json)
    print_json(terminal, options.prepare, result);
  else
    print_text(terminal, options.prepare, result);
  return 0;
}

}  // namespace

const Verb kPrepare = {"prepare", "Make", "text to a tokenizer and token shards", "inputs...",
                       "espalier prepare /usr/lib/python3.11 --include .py --out data/python --vocab-size 4096\n"
                       "espalier prepare corpus.jsonl --tokenizer DIR --out data/corpus --val-fraction 0.01", run};

}  // namespace espalier
