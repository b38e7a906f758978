// `espalier list WHAT`: what there is, for people, for scripts (--json) and for the pages of docs/ (--markdown).
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/suggest.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "report/table.h"

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

/// One list: a name, what is in it, and how it is made.
struct List {
  const char* name;
  const char* summary;
  Table (*make)();
};

Table list_verbs() {
  Table table({{"verb"}, {"summary"}});
  for (const Verb* verb : all_verbs()) table.row({verb->name, verb->summary});
  return table;
}

Table list_errors() {
  Table table({{"code"}, {"exit status", true}, {"HTTP status", true}, {"meaning"}});
  for (const CodeInfo& row : error_table())
    table.row({row.name, std::to_string(row.exit_status), std::to_string(row.http_status), row.meaning});
  return table;
}

Table list_lists();

// A new list is one row here.
constexpr List kLists[] = {
    {"verbs", "the subcommands of espalier", list_verbs},
    {"errors", "error codes with their exit and HTTP status", list_errors},
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
  const Table table = find_list(options.what.empty() ? "lists" : options.what).make();
  terminal.write(options.json ? as_json(table) : options.markdown ? table.markdown() : table.text());
  return 0;
}

}  // namespace

const Verb kList = {"list", "Look", "what there is: verbs, errors, models, ...", "[what]",
                    "espalier list\nespalier list errors\nespalier list verbs --json", run};

}  // namespace espalier
