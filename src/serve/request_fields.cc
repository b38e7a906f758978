#include "serve/request_fields.h"

#include <cmath>

#include "base/json_value.h"
#include "serve/api_error.h"

namespace espalier {
namespace {

constexpr size_t kShownBytes = 80;

std::string shown(const OrderedJson& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

}  // namespace

void fail_value(const OrderedJson& value, const std::string& path, const std::string& expected) {
  throw ApiError(400, fmt::format("'{}' is {}; expected {}", path, shown(value), expected), path);
}

OrderedJson parse_request_json(std::string_view body) {
  OrderedJson json;
  try {
    json = parse_ordered_json(body, "the request's body");
  } catch (const Error& e) {  // the edge: what is bad data elsewhere is a bad request here
    throw ApiError(400, e.what());
  }
  if (!json.is_object()) throw ApiError(400, "the request's body is " + shown(json) + "; expected a JSON object");
  return json;
}

RequestFields::RequestFields(const OrderedJson& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json.is_object()) fail_value(json, path_, "an object");
}

std::string RequestFields::path(const char* name) const { return path_.empty() ? name : path_ + "." + name; }

void RequestFields::fail(const char* name, const std::string& expected) const {
  const OrderedJson* value = find(name);
  if (value) fail_value(*value, path(name), expected);
  throw ApiError(400, fmt::format("'{}' is missing; expected {}", path(name), expected), path(name));
}

const OrderedJson* RequestFields::find(const char* name) const {
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> RequestFields::boolean(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(name, "true or false");
  return value->get<bool>();
}

std::optional<int64_t> RequestFields::integer(const char* name, int64_t min, int64_t max) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  const std::string expected = fmt::format("an integer from {} to {}", min, max);
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}) fail(name, expected);
  if (value->is_number_float()) {
    // Beyond 2^53 a double no longer says which integer is meant.
    const double number = value->get<double>();
    if (number != std::floor(number) || std::abs(number) > 9007199254740992.0) fail(name, expected);
  } else if (!value->is_number_integer()) {
    fail(name, expected);
  }
  const int64_t integer = value->is_number_float() ? int64_t(value->get<double>()) : value->get<int64_t>();
  if (integer < min || integer > max) fail(name, expected);
  return integer;
}

std::optional<double> RequestFields::number(const char* name, double min, double max) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max)) fail(name, fmt::format("a number from {} to {}", min, max));
  return number;
}

std::optional<std::string> RequestFields::string(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(name, "a string");
  return value->get<std::string>();
}

std::string RequestFields::required_string(const char* name) const {
  std::optional<std::string> value = string(name);
  if (!value) fail(name, "a string");
  return *std::move(value);
}

void RequestFields::each(const char* name, size_t max_size, const OnElement& on_element) const {
  const OrderedJson* value = find(name);
  if (!value) return;
  if (!value->is_array()) fail(name, "an array");
  if (value->size() > max_size)
    throw ApiError(400, fmt::format("'{}' has {} elements; at most {} are accepted", path(name), value->size(),
                                    max_size), path(name));
  for (size_t i = 0; i < value->size(); ++i) on_element((*value)[i], fmt::format("{}[{}]", path(name), i));
}

std::optional<RequestFields> RequestFields::object(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  return RequestFields(*value, path(name));
}

}  // namespace espalier
