// HTTP messages as values: headers, requests, responses, and the error that is answered with a status.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace espalier {

/// Header fields in their order; names compare without case.
class HttpHeaders {
 public:
  struct Field {
    std::string name, value;
  };

  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<Field> fields) : fields_(fields) {}

  void add(std::string name, std::string value) { fields_.push_back({std::move(name), std::move(value)}); }
  /// Replaces the fields of that name.
  void set(const std::string& name, std::string value);
  /// The value of the first field of that name; null where there is none.
  const std::string* find(std::string_view name) const;
  size_t count(std::string_view name) const;
  /// Whether a list such as "keep-alive, Upgrade" in a field of that name has the token.
  bool has_token(std::string_view name, std::string_view token) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  size_t size() const { return fields_.size(); }

 private:
  std::vector<Field> fields_;
};

struct HttpRequest {
  std::string method;  ///< as it came: methods are written in capitals
  std::string target;  ///< as it came
  std::string path;    ///< of the target, percent-decoded
  std::vector<std::pair<std::string, std::string>> query;  ///< decoded, in their order
  HttpHeaders headers;
  std::string body;
  int minor_version = 1;   ///< of HTTP/1.x
  bool keep_alive = true;  ///< what version and Connection say
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers;
  std::string body;
};

/// A response with Content-Type text/plain, and one with application/json.
HttpResponse text_response(int status, std::string text);
HttpResponse json_response(int status, std::string json);

/// An Error that knows the HTTP status of its answer.
class HttpError : public Error {
 public:
  HttpError(int status, const std::string& message);
  int status() const { return status_; }

 private:
  int status_;
};

/// throw http_error(413, "reading a body: ...", ...)
template <class... Args>
HttpError http_error(int status, fmt::format_string<Args...> format, Args&&... args) {
  return HttpError(status, fmt::format(format, std::forward<Args>(args)...));
}

/// "Not Found" for 404; "Unknown" for what has no name here.
std::string_view status_reason(int status);

/// Equality without the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// %41 to A, and + to a blank where `plus_is_blank`. Throws HttpError 400 for a broken escape and for %00.
std::string percent_decode(std::string_view text, bool plus_is_blank);

}  // namespace espalier
