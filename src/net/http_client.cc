#include "net/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/clock.h"
#include "net/http_head.h"

namespace espalier {
namespace {

constexpr size_t kMaxHead = size_t{64} << 10, kReadBytes = size_t{64} << 10;

/// Whether a kept connection is of no use: a server that is done with it has closed it, or said something unasked.
bool is_stale(const Socket& socket) {
  char byte;
  return ::recv(socket.fd(), &byte, 1, MSG_PEEK) >= 0 || errno != EAGAIN;
}

void wait_until(const Socket& socket, short events, double deadline) {
  if (!wait_ready(socket.fd(), events, deadline)) throw http_error(504, "no answer in time");
}

/// A server that refuses a request may close before it has read it; then what it said counts, not that it closed.
void send_all(const Socket& socket, std::string_view bytes, double deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) bytes.remove_prefix(size_t(n));
    else if (errno == EAGAIN) wait_until(socket, POLLOUT, deadline);
    else if (errno != EINTR) return;
  }
}

/// Appends what has come; false where nothing more will.
bool receive(const Socket& socket, std::string& bytes, double deadline) {
  char buffer[kReadBytes];
  for (;;) {
    // Also where bytes come without end and nothing is ever waited for.
    if (now_s() >= deadline) throw http_error(504, "no whole answer in time");
    const ssize_t n = ::recv(socket.fd(), buffer, sizeof buffer, 0);
    if (n > 0) bytes.append(buffer, size_t(n));
    if (n >= 0) return n > 0;
    if (errno == EAGAIN) wait_until(socket, POLLIN, deadline);
    else if (errno != EINTR) return false;
  }
}

/// Takes the next head off what is received.
std::string receive_head(const Socket& socket, std::string& bytes, double deadline) {
  for (size_t searched = 0;;) {
    const size_t end = bytes.find("\r\n\r\n", searched);
    if (end != std::string::npos) {
      std::string head = bytes.substr(0, end + 4);
      bytes.erase(0, end + 4);
      return head;
    }
    if (bytes.size() > kMaxHead) throw http_error(502, "a header of more than {} bytes", kMaxHead);
    searched = bytes.size() < 3 ? 0 : bytes.size() - 3;
    if (!receive(socket, bytes, deadline)) throw http_error(502, "it hung up without a response");
  }
}

void append_fields(std::string& request, const HttpHeaders& headers) {
  for (const HttpHeaders::Field& field : headers) request += field.name + ": " + field.value + "\r\n";
}

}  // namespace

HttpUrl parse_http_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://"))
    throw error(Code::kUnsupported, "reading the URL '{}': there is no TLS here; put a proxy between", url);
  if (!url.starts_with(kScheme)) throw error(Code::kUsage, "reading the URL '{}': expected http://host:port", url);
  HttpUrl parsed;
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  parsed.path = rest.substr(slash);
  rest = rest.substr(0, slash);
  const size_t bracket = rest.starts_with('[') ? std::min(rest.find(']'), rest.size()) : 0;
  const size_t colon = rest.find(':', bracket);
  parsed.host = bracket > 0 ? rest.substr(1, bracket - 1) : rest.substr(0, colon);
  if (colon != std::string_view::npos) {
    const char* end = rest.data() + rest.size();
    const auto [stop, status] = std::from_chars(rest.data() + colon + 1, end, parsed.port);
    if (status != std::errc() || stop != end || parsed.port < 1 || parsed.port > 65535)
      throw error(Code::kUsage, "reading the URL '{}': its port is no number from 1 to 65535", url);
  }
  const auto is_bad = [](char c) { return (c >= 0 && c <= ' ') || c == 127; };
  if (parsed.host.empty() || std::ranges::any_of(url, is_bad))
    throw error(Code::kUsage, "reading the URL '{}': expected http://host:port", url);
  return parsed;
}

HttpClient::HttpClient(const std::string& url, HttpClientOptions options)
    : url_(parse_http_url(url)), options_(std::move(options)) {
  while (url_.path.ends_with('/')) url_.path.pop_back();
}

HttpResponse HttpClient::get(const std::string& path) { return call("GET", path, {}, ""); }

HttpResponse HttpClient::post_json(const std::string& path, const std::string& json) {
  return call("POST", path, {{"Content-Type", "application/json"}}, json);
}

HttpResponse HttpClient::call(const std::string& method, const std::string& path, const HttpHeaders& headers,
                              const std::string& body) {
  const std::string request = write_request(method, path, headers, body);
  const auto attempt = [&] {
    std::string received;
    HttpResponse response = exchange(request, method == "HEAD", [&](const auto&, std::string_view piece) {
      received.append(piece);
      return true;
    });
    response.body = std::move(received);
    return response;
  };
  // A server may hang up on a kept connection just when it is used again. What changes nothing there is asked again.
  const bool may_repeat = socket_ && (method == "GET" || method == "HEAD");
  try {
    return attempt();
  } catch (const Error& e) {  // the edge: a second attempt is the answer
    if (!may_repeat || e.code() != Code::kPeer) throw;
  }
  return attempt();
}

HttpResponse HttpClient::stream_json(const std::string& path, const std::string& json,
                                     FunctionRef<bool(const SseEvent&)> on_event) {
  const HttpHeaders headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
  std::string other;
  SseReader events(options_.max_response_bytes);
  const auto on_piece = [&](const HttpResponse& head, std::string_view piece) {
    const std::string* type = head.headers.find("Content-Type");
    if (!type || !type->starts_with("text/event-stream")) {
      other.append(piece);
      return true;
    }
    events.push(piece);
    while (const std::optional<SseEvent> event = events.next())
      if (!on_event(*event)) return false;
    return true;
  };
  HttpResponse response = exchange(write_request("POST", path, headers, json), false, on_piece);
  response.body = std::move(other);
  return response;
}

std::string HttpClient::write_request(const std::string& method, const std::string& path, const HttpHeaders& headers,
                                      const std::string& body) const {
  const bool six = url_.host.find(':') != std::string::npos;
  const std::string target = url_.path + path;
  std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: {}{}{}:{}\r\n", method, target.empty() ? "/" : target,
                                    six ? "[" : "", url_.host, six ? "]" : "", url_.port);
  append_fields(request, options_.headers);
  append_fields(request, headers);
  if (!body.empty() || method == "POST" || method == "PUT")
    request += fmt::format("Content-Length: {}\r\n", body.size());
  return request + "\r\n" + body;
}

Socket HttpClient::connected(double deadline) {
  Socket socket = std::move(socket_);
  if (socket && !is_stale(socket)) return socket;
  return connect_tcp(url_.host, url_.port, std::min(deadline, now_s() + options_.connect_s));
}

HttpResponse HttpClient::exchange(const std::string& request, bool bodiless, OnPiece on_piece) {
  const double deadline = now_s() + options_.total_s;
  Socket socket = connected(deadline);
  try {
    send_all(socket, request, deadline);
    std::string bytes, piece;
    ResponseHead head;
    do head = parse_response_head(receive_head(socket, bytes, deadline));
    while (head.response.status < 200);
    BodyDecoder body(bodiless ? BodyFraming{} : head.framing, options_.max_response_bytes);
    for (;;) {
      piece.clear();
      bytes.erase(0, body.feed(bytes, piece));
      if (!piece.empty() && !on_piece(head.response, piece)) return head.response;
      if (body.done()) break;
      if (receive(socket, bytes, deadline)) continue;
      if (!body.ends_with_connection()) throw http_error(502, "it hung up in the middle of a response");
      return head.response;
    }
    if (head.keep_alive && bytes.empty()) socket_ = std::move(socket);
    return head.response;
  } catch (const HttpError& e) {  // the edge: what a parser finds becomes the caller's kind of error
    throw error(e.status() == 413 ? Code::kBadData : e.code() == Code::kTimeout ? Code::kTimeout : Code::kPeer,
                "talking to {}:{}: {}", url_.host, url_.port, e.what());
  }
}

}  // namespace espalier
