// Fields of a request's JSON with their types and ranges checked: every error is an ApiError 400 that names the field,
// what it is and what it should be. A null field counts as absent, and unknown fields are never looked at: clients send
// more than any server knows.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace espalier {

/// Parses a request's body, which must be an object of JSON nested at most 64 deep.
OrderedJson parse_request_json(std::string_view body);

class RequestFields {
 public:
  /// `path` is what errors put before the names ("messages[2]"). Throws where `json`, borrowed, is no object.
  explicit RequestFields(const OrderedJson& json, std::string path = "");

  /// Null where absent.
  const OrderedJson* find(const char* name) const;
  std::optional<bool> boolean(const char* name) const;
  /// Bounds are inclusive. A number such as 5.0 is an integer too.
  std::optional<int64_t> integer(const char* name, int64_t min, int64_t max) const;
  std::optional<double> number(const char* name, double min, double max) const;
  std::optional<std::string> string(const char* name) const;
  std::string required_string(const char* name) const;

  /// An array's elements one by one, with their paths; nothing where the field is absent.
  using OnElement = std::function<void(const OrderedJson& element, const std::string& path)>;
  void each(const char* name, size_t max_size, const OnElement& on_element) const;
  std::optional<RequestFields> object(const char* name) const;

  std::string path(const char* name) const;
  /// ApiError "PATH is WHAT; expected EXPECTED".
  [[noreturn]] void fail(const char* name, const std::string& expected) const;

 private:
  const OrderedJson& json_;
  std::string path_;
};

/// The error of a value at `path`, shown shortened. `expected` completes "expected ...".
[[noreturn]] void fail_value(const OrderedJson& value, const std::string& path, const std::string& expected);

}  // namespace espalier
