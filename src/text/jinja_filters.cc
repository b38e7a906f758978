#include "text/jinja_filters.h"

#include <algorithm>

#include "base/suggest.h"

namespace espalier::jinja {
namespace {

// Filters of Jinja's that no chat template was seen to use.
constexpr const char* kLeftOut[] = {"filesizeformat", "pprint", "random",   "striptags",
                                    "urlencode",      "urlize", "wordwrap", "xmlattr"};

const FilterRow* find_filter(std::string_view name) {
  for (const auto rows : {text_filters(), sequence_filters()})
    for (const FilterRow& row : rows)
      if (name == row.name) return &row;
  return nullptr;
}

}  // namespace

bool filter_exists(std::string_view name) { return find_filter(name) != nullptr; }

Value apply_filter(Runtime& rt, const std::string& name, const Value& value, const Arguments& arguments) {
  rt.step();
  if (const FilterRow* row = find_filter(name)) return row->filter(rt, value, arguments);
  if (std::find(std::begin(kLeftOut), std::end(kLeftOut), name) != std::end(kLeftOut))
    throw rt.unsupported("the filter '{}'", name);
  std::vector<std::string> names;
  for (const auto rows : {text_filters(), sequence_filters()})
    for (const FilterRow& row : rows) names.push_back(row.name);
  throw rt.fail("No filter named '{}'.{}", name, did_you_mean(name, names));
}

}  // namespace espalier::jinja
