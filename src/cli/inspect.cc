// `espalier inspect FILE|FOLDER`: what is in it, for any format we read.
#include <cmath>

#include "base/human.h"
#include "base/json_value.h"
#include "cli/describe.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "report/table.h"

namespace espalier {

extern const Verb kInspect;

namespace {

struct Options {
  std::string path;
  int64_t rows = 40;
  bool verify = false, json = false;
  void visit(Fields& f) {
    f.field("path", path, "file or folder: model, .gguf, weights, tokenizer, token shards, checkpoint, run, recipe");
    f.field("rows", rows, "longest table shown; 0: all rows", 0);
    f.field("verify", verify, "read everything: checksums of shards, finite weights of a model");
    f.field("json", json, "one object");
  }
};

std::string cell(const std::string& key, const OrderedJson& value) {
  if (value.is_string()) {
    constexpr size_t kMost = 400;
    const std::string text = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    if (text.size() > kMost && key != "cannot_run")
      return fmt::format("({} bytes; --json shows them)", value.get_ref<const std::string&>().size());
    return text.find('\\') == std::string::npos ? value.get<std::string>() : text;  // keeps line breaks on one line
  }
  if (value.is_number_integer() && key.ends_with("bytes")) return human_bytes(value.get<double>());
  if (value.is_number_integer() && std::abs(value.get<double>()) >= 1e5 && !key.ends_with("id"))
    return fmt::format("{} ({})", value.get<int64_t>(), human_count(value.get<double>()));
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

bool is_table(const OrderedJson& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

std::string table_text(const OrderedJson& rows, int64_t most) {
  std::vector<Column> columns;
  for (const auto& [key, value] : rows.front().items()) columns.push_back({key, value.is_number()});
  Table table(columns);
  int64_t shown = 0;
  for (const OrderedJson& row : rows) {
    if (most > 0 && shown == most) break;
    ++shown;
    std::vector<std::string> cells;
    for (const auto& [key, value] : row.items()) cells.push_back(cell(key, value));
    table.row(cells);
  }
  std::string text = "\n" + table.text();
  if (shown < int64_t(rows.size()))
    text += fmt::format("... and {} more (--rows 0 shows all)\n", int64_t(rows.size()) - shown);
  return text;
}

// Lines "name  value", objects as lines "outer.inner  value"; tables come behind them.
void collect(const OrderedJson& object, const std::string& prefix, Table& lines) {
  for (const auto& [key, value] : object.items()) {
    if (is_table(value)) continue;
    if (value.is_object() && !value.empty())
      collect(value, prefix + key + ".", lines);
    else
      lines.row({prefix + key, cell(key, value)});
  }
}

std::string as_text(const OrderedJson& object, int64_t rows) {
  Table lines({{"name"}, {"value"}});
  collect(object, "", lines);
  std::string text = lines.text(false);
  for (const auto& [key, value] : object.items())
    if (is_table(value)) text += table_text(value, rows);
  return text;
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kInspect, args, ESP_CONFIG(options))) return 0;
  const OrderedJson object = describe(terminal, options.path, {.verify = options.verify});
  terminal.write(options.json ? object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n"
                              : as_text(object, options.rows));
  return 0;
}

}  // namespace

const Verb kInspect = {"inspect", "Look", "what is in a file or folder: model, tokenizer, shards, checkpoint, run",
                       "path", "espalier inspect runs/demo/model\nespalier inspect data/train-00000.tokens --verify\n"
                       "espalier inspect model.safetensors --json\nespalier inspect model.gguf", run};

}  // namespace espalier
