// `espalier tokenize MODEL`: JSON strings, one a line, to JSON arrays of ids, and back.
#include <iostream>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace espalier {

extern const Verb kTokenize;

namespace {

struct Options {
  std::string model;
  bool add_special = false, decode = false, skip_special = false, json = false;
  void visit(Fields& f) {
    f.field("model", model, "model, or a tokenizer.json");
    f.field("add_special", add_special, "put BOS and EOS where the model's file says so");
    f.field("decode", decode, "the other way: arrays of ids in, strings out");
    f.field("skip_special", skip_special, "with --decode: special tokens give no text");
    f.field("json", json, "one object a line: ids, tokens as tokenizer.json writes them, [begin, end) byte offsets");
  }
};

std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string encode_line(const Tokenizer& tokenizer, const Json& line, const std::string& what, const Options& options) {
  if (!line.is_string())
    throw error(Code::kBadData, "{}: found {}; expected a JSON string, as in \"some text\"", what, line.type_name());
  const std::string& text = line.get_ref<const std::string&>();
  const EncodeOptions encode{.add_special = options.add_special};
  if (!options.json) return dump(tokenizer.encode(text, encode));
  OrderedJson object = {
      {"ids", OrderedJson::array()}, {"tokens", OrderedJson::array()}, {"offsets", OrderedJson::array()}};
  for (const TokenPiece& piece : tokenizer.encode_pieces(text, encode)) {
    object["ids"].push_back(piece.id);
    object["tokens"].push_back(tokenizer.token_text(piece.id));
    object["offsets"].push_back({piece.begin, piece.end});
  }
  return dump(object);
}

std::string decode_line(const Tokenizer& tokenizer, const Json& line, const std::string& what, const Options& options) {
  if (!line.is_array())
    throw error(Code::kBadData, "{}: found {}; expected a JSON array of ids, as in [1, 2]", what, line.type_name());
  std::vector<int32_t> ids;
  for (const Json& item : line) {
    if (!item.is_number_integer() || item < 0 || item >= tokenizer.vocab_size())
      throw error(Code::kBadData, "{}: {} is no token id; this tokenizer's are 0 to {}", what, item.dump(),
                  tokenizer.vocab_size() - 1);
    ids.push_back(item.get<int32_t>());
  }
  const std::string text = tokenizer.decode(ids, options.skip_special);
  return dump(options.json ? OrderedJson{{"ids", ids}, {"text", text}} : OrderedJson(text));
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kTokenize, args, ESP_CONFIG(options))) return 0;
  const Tokenizer tokenizer = open_tokenizer(options.model);
  std::ios::sync_with_stdio(false);
  int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const std::string what = fmt::format("line {} of standard input", ++number);
    const Json json = parse_json(line, what);
    terminal.write(options.decode ? decode_line(tokenizer, json, what, options)
                                  : encode_line(tokenizer, json, what, options));
    terminal.check_interrupt();
  }
  if (std::cin.bad()) throw errno_error("reading standard input");
  return 0;
}

}  // namespace

const Verb kTokenize = {"tokenize", "Use", "text to token ids and back, line by line", "model",
                        "echo '\"Hello, world\"' | espalier tokenize runs/demo\n"
                        "echo '[1, 2, 3]' | espalier tokenize tokenizer.json --decode", run};

}  // namespace espalier
