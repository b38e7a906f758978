#include "net/http_message.h"

#include <algorithm>

namespace espalier {
namespace {

struct Status {
  int status;
  std::string_view reason;
};

constexpr Status kStatuses[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char letter = lower(c);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

Code code_of(int status) {
  if (status == 408 || status == 504) return Code::kTimeout;
  if (status == 501 || status == 505) return Code::kUnsupported;
  if (status == 502) return Code::kPeer;
  return status >= 500 ? Code::kInternal : Code::kUsage;
}

HttpResponse typed_response(int status, const char* type, std::string body) {
  return {.status = status, .headers = {{"Content-Type", type}}, .body = std::move(body)};
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

void HttpHeaders::set(const std::string& name, std::string value) {
  std::erase_if(fields_, [&](const Field& field) { return equal_ignoring_case(field.name, name); });
  add(name, std::move(value));
}

const std::string* HttpHeaders::find(std::string_view name) const {
  for (const Field& field : fields_)
    if (equal_ignoring_case(field.name, name)) return &field.value;
  return nullptr;
}

size_t HttpHeaders::count(std::string_view name) const {
  return size_t(std::ranges::count_if(fields_, [&](const Field& f) { return equal_ignoring_case(f.name, name); }));
}

bool HttpHeaders::has_token(std::string_view name, std::string_view token) const {
  for (const Field& field : fields_) {
    if (!equal_ignoring_case(field.name, name)) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      if (equal_ignoring_case(trimmed(rest.substr(0, comma)), token)) return true;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return false;
}

HttpResponse text_response(int status, std::string text) {
  return typed_response(status, "text/plain; charset=utf-8", std::move(text));
}

HttpResponse json_response(int status, std::string json) {
  return typed_response(status, "application/json", std::move(json));
}

HttpError::HttpError(int status, const std::string& message) : Error(code_of(status), message), status_(status) {}

std::string_view status_reason(int status) {
  for (const Status& row : kStatuses)
    if (row.status == status) return row.reason;
  return "Unknown";
}

std::string percent_decode(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' && plus_is_blank ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) throw http_error(400, "reading the request's target: '%' without two hexadecimal digits");
    if (high + low == 0) throw http_error(400, "reading the request's target: %00 has no place there");
    decoded += char(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace espalier
