// The head of a message as bytes.
#pragma once
#include <string>

#include "net/http_message.h"

namespace espalier {

/// How a response is to be framed; the server decides it, whatever the handler's headers say.
struct ResponseFraming {
  bool chunked = false;     ///< the body comes in chunks
  bool has_length = true;   ///< Content-Length is the size of response.body
  bool keep_alive = true;   ///< the connection stays open
  int minor_version = 1;    ///< of the request
};

/// Status line and header fields, Date among them, and the empty line. Fields of the response that speak of its framing
/// are left out; control bytes in values become blanks, so that no value can begin another field.
std::string write_response_head(const HttpResponse& response, const ResponseFraming& framing);

/// Seconds since the epoch as "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(double wall_s);

}  // namespace espalier
