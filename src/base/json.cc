#include "base/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace espalier {
namespace {

constexpr int kMaxDepth = 64;

std::string position(std::string_view text, size_t byte) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < byte && i < text.size(); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return fmt::format("line {}, column {}", line, column);
}

/// The library's message without its own name and without the place, which ours names.
std::string said(const Json::exception& e) {
  std::string text = e.what();
  if (text.starts_with('[')) text.erase(0, std::min(text.find("] ") + 2, text.size()));
  if (text.starts_with("parse error")) text.erase(0, std::min(text.find(": ") + 2, text.size()));
  return text;
}

// Depth is checked first: nlohmann's parser is iterative, but the destructor and our own readers recurse.
void check_depth(std::string_view text, const std::string& what) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth)
        throw error(Code::kBadData, "reading {}: JSON nested deeper than {} at {}", what, kMaxDepth,
                    position(text, i));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

template <class J>
J parse(std::string_view text, const std::string& what, const typename J::parser_callback_t& callback) {
  check_depth(text, what);
  try {
    return J::parse(text, callback);
  } catch (const Json::parse_error& e) {  // the library's edge: its exception becomes ours
    throw error(Code::kBadData, "reading {}: not valid JSON at {}: {}", what,
                position(text, e.byte ? e.byte - 1 : 0), said(e));
  } catch (const Json::exception& e) {  // the same edge: a number beyond double comes as out_of_range, without a place
    throw error(Code::kBadData, "reading {}: {}", what, said(e));
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& what) { return parse<Json>(text, what, nullptr); }

OrderedJson parse_ordered_json(std::string_view text, const std::string& what) {
  return parse<OrderedJson>(text, what, nullptr);
}

Json parse_json_unique(std::string_view text, const std::string& what) {
  // One set of keys for each object that is open; the values that are done need none.
  std::vector<std::set<std::string>> open;
  return parse<Json>(text, what, [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw error(Code::kBadData, "reading {}: the key {} appears twice in one object", what, value.dump());
    return true;
  });
}

Json read_json_file(const std::string& path, size_t max_bytes) {
  return parse_json(read_file(path, max_bytes), path);
}

namespace {

bool holds(const Json& value, bool*) { return value.is_boolean(); }
bool holds(const Json& value, int64_t*) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{INT64_MAX};
  // Python writes 1e4 or 512.0 for some integers of config.json.
  if (value.is_number_float()) {
    const double d = value.get<double>();
    return d == std::floor(d) && std::abs(d) < 9e15;
  }
  return value.is_number_integer();
}
bool holds(const Json& value, double*) { return value.is_number(); }
bool holds(const Json& value, std::string*) { return value.is_string(); }

const char* type_name(bool*) { return "true or false"; }
const char* type_name(int64_t*) { return "an integer"; }
const char* type_name(double*) { return "a number"; }
const char* type_name(std::string*) { return "a string"; }

template <class T>
T convert(const Json& value, const char* key, const std::string& what) {
  if (!holds(value, static_cast<T*>(nullptr)))
    throw error(Code::kBadData, "reading {}: \"{}\" is {}; expected {}", what, key,
                value.is_structured() ? value.type_name() : value.dump(-1, ' ', false, Json::error_handler_t::replace),
                type_name(static_cast<T*>(nullptr)));
  return value.get<T>();
}

}  // namespace

template <class T>
T json_get(const Json& json, const char* key, const std::string& what) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end())
    throw error(Code::kBadData, "reading {}: \"{}\" is missing; expected {}", what, key,
                type_name(static_cast<T*>(nullptr)));
  return convert<T>(*found, key, what);
}

template <class T>
T json_get_or(const Json& json, const char* key, T fallback, const std::string& what) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || found->is_null()) return fallback;
  return convert<T>(*found, key, what);
}

template bool json_get<bool>(const Json&, const char*, const std::string&);
template int64_t json_get<int64_t>(const Json&, const char*, const std::string&);
template double json_get<double>(const Json&, const char*, const std::string&);
template std::string json_get<std::string>(const Json&, const char*, const std::string&);
template bool json_get_or<bool>(const Json&, const char*, bool, const std::string&);
template int64_t json_get_or<int64_t>(const Json&, const char*, int64_t, const std::string&);
template double json_get_or<double>(const Json&, const char*, double, const std::string&);
template std::string json_get_or<std::string>(const Json&, const char*, std::string, const std::string&);

}  // namespace espalier
