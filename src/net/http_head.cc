#include "net/http_head.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace espalier {
namespace {

constexpr std::string_view kTokenMarks = "!#$%&'*+-.^_`|~";

/// Takes the next line off `rest`, without its CR LF.
std::string_view take_line(std::string_view& rest, int status) {
  const size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) throw http_error(status, "reading a header: a line without CR LF");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_char); }

bool is_control(char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; }

HttpHeaders::Field parse_field(std::string_view line, int status) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    throw http_error(status, "reading a header: a line that is no 'Name: value'");
  std::string_view value = line.substr(colon + 1);
  const size_t begin = std::min(value.find_first_not_of(" \t"), value.size());
  value = value.substr(begin, value.find_last_not_of(" \t") + 1 - begin);
  if (std::ranges::any_of(value, is_control)) throw http_error(status, "reading a header: control bytes in a value");
  return {std::string(line.substr(0, colon)), std::string(value)};
}

HttpHeaders parse_fields(std::string_view rest, int status) {
  HttpHeaders headers;
  for (;;) {
    const std::string_view line = take_line(rest, status);
    if (line.empty()) return headers;
    HttpHeaders::Field field = parse_field(line, status);
    headers.add(std::move(field.name), std::move(field.value));
  }
}

std::optional<uint64_t> content_length(const HttpHeaders& headers, int status) {
  const std::string* text = headers.find("Content-Length");
  if (!text) return std::nullopt;
  uint64_t length = 0;
  const auto [stop, found] = std::from_chars(text->data(), text->data() + text->size(), length);
  if (found == std::errc::result_out_of_range) return ~uint64_t{0};  // digits, and more than anybody accepts
  const bool number = found == std::errc() && stop == text->data() + text->size();
  if (!number || headers.count("Content-Length") > 1)
    throw http_error(status, "reading a header: Content-Length must be there once, as a number");
  return length;
}

BodyFraming framing_of(const HttpHeaders& headers, int status) {
  const std::optional<uint64_t> length = content_length(headers, status);
  const std::string* coding = headers.find("Transfer-Encoding");
  if (!coding) return length ? BodyFraming{BodyFraming::Kind::kLength, *length} : BodyFraming{};
  if (length) throw http_error(status, "reading a header: Content-Length beside Transfer-Encoding");
  if (headers.count("Transfer-Encoding") > 1 || !equal_ignoring_case(*coding, "chunked"))
    throw http_error(status == 400 ? 501 : status, "reading a header: a Transfer-Encoding other than 'chunked'");
  return {BodyFraming::Kind::kChunked, 0};
}

bool keeps_alive(const HttpHeaders& headers, int minor_version) {
  if (headers.has_token("Connection", "close")) return false;
  return minor_version >= 1 || headers.has_token("Connection", "keep-alive");
}

/// 0 or 1 of "HTTP/1.x".
std::optional<int> minor_version(std::string_view text) {
  if (text == "HTTP/1.1") return 1;
  if (text == "HTTP/1.0") return 0;
  return std::nullopt;
}

void parse_query(std::string_view rest, HttpRequest& request) {
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (!pair.empty())
      request.query.emplace_back(percent_decode(pair.substr(0, equals), true),
                                 percent_decode(pair.substr(std::min(equals + 1, pair.size())), true));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void parse_target(HttpRequest& request) {
  std::string_view target = request.target;
  // What proxies are sent, an absolute URL, is to be understood by every server.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(std::min(target.find('/', scheme.size()), target.size()));
    if (target.empty()) target = "/";
  }
  const bool of_the_server = target == "*" && request.method == "OPTIONS";
  if (!of_the_server && !target.starts_with('/'))
    throw http_error(400, "reading a request: its target is neither a path nor a URL");
  target = target.substr(0, target.find('#'));
  const size_t question = std::min(target.find('?'), target.size());
  request.path = percent_decode(target.substr(0, question), false);
  parse_query(target.substr(std::min(question + 1, target.size())), request);
}

void parse_request_line(std::string_view line, HttpRequest& request) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !is_token(line.substr(0, first)))
    throw http_error(400, "reading a request: its first line is no 'METHOD target HTTP/1.1'");
  const std::string_view target = line.substr(first + 1, last - first - 1), version = line.substr(last + 1);
  if (target.empty() || std::ranges::any_of(target, [](char c) { return is_control(c) || c == ' ' || c == '\t'; }))
    throw http_error(400, "reading a request: blanks or control bytes in its target");
  const std::optional<int> minor = minor_version(version);
  if (!minor && version.starts_with("HTTP/"))
    throw http_error(505, "reading a request: only HTTP/1.0 and 1.1 are known");
  if (!minor) throw http_error(400, "reading a request: its first line does not end with HTTP/1.1");
  request.method = line.substr(0, first);
  request.target = target;
  request.minor_version = *minor;
}

}  // namespace

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kTokenMarks.find(c) != std::string_view::npos;
}

RequestHead parse_request_head(std::string_view head) {
  RequestHead parsed;
  HttpRequest& request = parsed.request;
  parse_request_line(take_line(head, 400), request);
  request.headers = parse_fields(head, 400);
  parse_target(request);
  parsed.framing = framing_of(request.headers, 400);
  request.keep_alive = keeps_alive(request.headers, request.minor_version);
  if (request.minor_version >= 1 && request.headers.count("Host") != 1)
    throw http_error(400, "reading a request: HTTP/1.1 wants the header Host, once");
  if (request.minor_version == 0 && parsed.framing.kind == BodyFraming::Kind::kChunked)
    throw http_error(400, "reading a request: chunks in HTTP/1.0");
  const std::string* expected = request.headers.find("Expect");
  if (expected && !equal_ignoring_case(*expected, "100-continue"))
    throw http_error(417, "reading a request: an expectation other than 100-continue");
  parsed.wants_continue = expected && request.minor_version >= 1;
  return parsed;
}

ResponseHead parse_response_head(std::string_view head) {
  ResponseHead parsed;
  const std::string_view line = take_line(head, 502);
  const std::optional<int> minor = minor_version(line.substr(0, std::min<size_t>(8, line.size())));
  const bool framed = line.size() >= 12 && line[8] == ' ' && (line.size() == 12 || line[12] == ' ');
  int& status = parsed.response.status;
  if (!minor || !framed || std::from_chars(line.data() + 9, line.data() + 12, status).ptr != line.data() + 12 ||
      status < 100 || status > 599)
    throw http_error(502, "reading a response: its first line is no 'HTTP/1.1 200 OK'");
  parsed.response.headers = parse_fields(head, 502);
  parsed.framing = framing_of(parsed.response.headers, 502);
  parsed.keep_alive = keeps_alive(parsed.response.headers, *minor);
  if (status < 200 || status == 204 || status == 304) parsed.framing = {};
  else if (parsed.framing.kind == BodyFraming::Kind::kNone) parsed.framing.kind = BodyFraming::Kind::kUntilClose;
  return parsed;
}

}  // namespace espalier
