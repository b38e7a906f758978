// The filters: one table (jinja_filters.cc) over functions in three files. A filter gets the value on its left and its
// arguments.
#pragma once
#include <span>

#include "text/jinja_runtime.h"

namespace espalier::jinja {

using Filter = Value (*)(Runtime& rt, const Value& value, const Arguments& arguments);

struct FilterRow {
  const char* name;
  Filter filter;
};

/// jinja_filters_text.cc: of strings and numbers.
std::span<const FilterRow> text_filters();
/// jinja_filters_sequence.cc: of lists and dicts.
std::span<const FilterRow> sequence_filters();
/// jinja_json.cc.
Value to_json(Runtime& rt, const Value& value, const Arguments& arguments);

/// The value of an attribute path such as "function.name" or 0; all of Jinja's filters take such paths. An undefined
/// path is the item itself. `fallback` stands for what is undefined on the way, unless it is undefined itself.
Value attribute_path(Runtime& rt, const Value& item, const Value& path, const Value& fallback = {});

}  // namespace espalier::jinja
