// The head of an HTTP/1.1 message: start line and header fields to values. Strict where leniency has let requests be
// smuggled past proxies (bare line feeds, folded lines, two lengths, a length beside chunks): those are refused.
#pragma once
#include <string_view>

#include "net/http_body.h"
#include "net/http_message.h"

namespace espalier {

struct RequestHead {
  HttpRequest request;  ///< without its body
  BodyFraming framing;
  bool wants_continue = false;  ///< the client waits for 100 before it sends the body
};

/// Parses a request's head, the empty line included. Throws HttpError 400, 417 (an expectation other than
/// 100-continue), 501 (a transfer coding other than chunked), 505 (not HTTP/1.0 or 1.1).
RequestHead parse_request_head(std::string_view head);

struct ResponseHead {
  HttpResponse response;  ///< without its body
  BodyFraming framing;    ///< as for an answer to GET
  bool keep_alive = true;
};

/// Parses a response's head. Throws HttpError 502.
ResponseHead parse_response_head(std::string_view head);

/// Whether a byte may stand in a method or a header's name (RFC 9110, token).
bool is_token_char(char c);

}  // namespace espalier
