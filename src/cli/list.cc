// `espalier list WHAT`: what there is, for people, for scripts (--json) and for the pages of docs/ (--markdown).
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/suggest.h"
#include "bench/bench.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "models/registry.h"
#include "report/table.h"
#include "train/train_config.h"

namespace espalier {

extern const Verb kList;

namespace {

struct Options {
  std::string what;
  bool json = false, markdown = false;
  void visit(Fields& f) {
    f.field("what", what, "what to list; without it, the lists there are");
    f.field("json", json, "one JSON array of objects");
    f.field("markdown", markdown, "a Markdown table, as docs/ has it");
  }
};

/// One list: a name, what is in it, how it is made, and its page in docs/ if that is more than the table.
struct List {
  const char* name;
  const char* summary;
  Table (*make)();
  std::string (*page)() = nullptr;
};

Table list_verbs() {
  Table table({{"verb"}, {"summary"}});
  for (const Verb* verb : all_verbs()) table.row({verb->name, verb->summary});
  return table;
}

Table list_models() {
  Table table({{"model type"}, {"architecture"}, {"summary"}});
  for (const Family* family : families()) table.row({family->model_type, family->architecture, family->summary});
  return table;
}

Table list_errors() {
  Table table({{"code"}, {"exit status", true}, {"HTTP status", true}, {"meaning"}});
  for (const CodeInfo& row : error_table())
    table.row({row.name, std::to_string(row.exit_status), std::to_string(row.http_status), row.meaning});
  return table;
}

std::string errors_page() {
  return "# Errors\n\nOne table for the whole program: what went wrong, the exit status of `espalier` and the HTTP "
         "status "
         "of its server.\nMade by `espalier list errors --markdown`.\n\n" +
         list_errors().markdown();
}

Table list_config() {
  Table table({{"setting"}, {"type"}, {"default"}, {"range"}, {"meaning"}});
  TrainConfig config;
  for (const FieldInfo& field : config_fields(ESP_CONFIG(config)))
    table.row({field.path, field.type, field.value, field.range, field.help});
  return table;
}

std::string config_page() {
  TrainConfig config;
  return "# Settings of `espalier train`\n\nA recipe is a TOML file with these sections. A flag `--section.key=value` "
         "overrides it; what a run used is kept in its\n`config.toml`. Made by `espalier list config --markdown`.\n\n" +
         config_markdown(ESP_CONFIG(config));
}

/// The first comment line of a recipe says what it is.
Table list_recipes() {
  namespace fs = std::filesystem;
  Table table({{"recipe"}, {"summary"}});
  std::vector<fs::path> files;
  const fs::path installed = fs::read_symlink("/proc/self/exe").parent_path() / "../share/espalier/recipes";
  for (const fs::path& folder : {fs::path("recipes"), installed.lexically_normal()})
    if (is_folder(folder))
      for (const std::string& path : list_folder(folder))
        if (path.ends_with(".toml")) files.push_back(path);
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const std::string text = read_file(file, size_t{1} << 20), line = text.substr(0, text.find('\n'));
    table.row({file, line.starts_with("# ") ? line.substr(2) : ""});
  }
  return table;
}

Table list_benches() {
  Table table({{"benchmark"}, {"measures"}});
  for (const Bench* bench : all_benches()) table.row({bench->name, bench->summary});
  return table;
}

Table list_lists();

// A new list is one row here.
constexpr List kLists[] = {
    {"verbs", "the subcommands of espalier", list_verbs},
    {"models", "model families that can be trained, read and written", list_models},
    {"recipes", "recipes at hand for `espalier train`", list_recipes},
    {"config", "every setting of a recipe", list_config, config_page},
    {"benches", "what `espalier bench` measures", list_benches},
    {"errors", "error codes with their exit and HTTP status", list_errors, errors_page},
    {"lists", "these lists", list_lists},
};

Table list_lists() {
  Table table({{"list"}, {"summary"}});
  for (const List& list : kLists) table.row({list.name, list.summary});
  return table;
}

const List& find_list(const std::string& name) {
  std::vector<std::string> names;
  for (const List& list : kLists) {
    if (list.name == name) return list;
    names.push_back(list.name);
  }
  throw error(Code::kUsage, "no list '{}'{}; the lists are {}", name, did_you_mean(name, names),
              fmt::join(names, ", "));
}

std::string as_json(const Table& table) {
  OrderedJson array = OrderedJson::array();
  for (const auto& row : table.rows()) {
    OrderedJson object;
    for (size_t i = 0; i < row.size(); ++i) object[table.columns()[i].name] = row[i];
    array.push_back(object);
  }
  return array.dump(1) + "\n";
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kList, args, ESP_CONFIG(options))) return 0;
  const List& list = find_list(options.what.empty() ? "lists" : options.what);
  if (options.markdown && list.page) {
    terminal.write(list.page());
    return 0;
  }
  const Table table = list.make();
  terminal.write(options.json ? as_json(table) : options.markdown ? table.markdown() : table.text());
  return 0;
}

}  // namespace

const Verb kList = {"list", "Look", "what there is: verbs, models, recipes, settings, errors", "[what]",
                    "espalier list\nespalier list models\nespalier list config --markdown > docs/config.md", run};

}  // namespace espalier
