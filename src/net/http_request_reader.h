// Requests from a connection's bytes, in whatever pieces they come. The connection owns the bytes: feed() says how many
// belong to the request in progress, and what follows them is the next request's (pipelining).
#pragma once
#include <string>
#include <string_view>

#include "net/http_body.h"
#include "net/http_head.h"

namespace espalier {

struct HttpLimits {
  size_t max_header_bytes = size_t{64} << 10;  ///< first line and header fields together
  size_t max_body_bytes = size_t{16} << 20;
};

class HttpRequestReader {
 public:
  enum class State { kIdle, kHead, kBody, kDone };

  explicit HttpRequestReader(HttpLimits limits) : limits_(limits) {}

  /// Takes bytes until the request is whole and returns how many it used; all of them where it is not whole yet.
  /// Throws HttpError; the connection must then be closed, because where the next request begins is unknown.
  size_t feed(std::string_view bytes);
  State state() const { return state_; }
  /// The head has come, the body not yet, and the client waits to be told to send it.
  bool wants_continue() const { return state_ == State::kBody && head_.wants_continue; }
  /// The whole request; the reader begins the next.
  HttpRequest take();

 private:
  size_t feed_head(std::string_view bytes);
  void end_head();

  HttpLimits limits_;
  State state_ = State::kIdle;
  std::string text_;       // of the head, as far as it has come
  size_t line_begin_ = 0;  // of its last line
  RequestHead head_;
  BodyDecoder body_;
};

}  // namespace espalier
