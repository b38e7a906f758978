// A small HTTP/1.1 client for one server: blocking calls with a total deadline, streams of events, and a connection
// that is kept between calls. For tests, for model endpoints that agents talk to, and for other servers' metrics. Not a
// browser: no TLS, redirects, cookies or compression.
#pragma once
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "net/http_message.h"
#include "net/socket.h"
#include "net/sse.h"

namespace espalier {

struct HttpUrl {
  std::string host;
  int port = 80;
  std::string path;  ///< from the first '/' on, query included; empty where there is none
};

/// "http://host:port/path". Throws Error kUsage where it is none, kUnsupported for https.
HttpUrl parse_http_url(const std::string& url);

struct HttpClientOptions {
  double connect_s = 5;
  double total_s = 60;  ///< of a call, connecting included
  size_t max_response_bytes = size_t{64} << 20;
  HttpHeaders headers;  ///< sent with every request (Authorization)
};

class HttpClient {
 public:
  /// Paths of calls are appended to the URL's. Throws as parse_http_url does; connects with the first call.
  explicit HttpClient(const std::string& url, HttpClientOptions options = {});

  // Every call returns the response, whatever its status. It throws Error kPeer where the server cannot be reached,
  // goes away or breaks the protocol, kTimeout at the deadline, kBadData where the response is larger than it may be.
  HttpResponse get(const std::string& path);
  HttpResponse post_json(const std::string& path, const std::string& json);
  HttpResponse call(const std::string& method, const std::string& path, const HttpHeaders& headers,
                    const std::string& body);

  /// post_json for an answer that is a stream of events: on_event sees each as it comes and returns false to hang up.
  /// The body of the response is what was no stream of events (an error's JSON), otherwise empty.
  HttpResponse stream_json(const std::string& path, const std::string& json,
                           FunctionRef<bool(const SseEvent&)> on_event);

 private:
  /// Sees each piece of the body; false hangs up.
  using OnPiece = FunctionRef<bool(const HttpResponse& head, std::string_view piece)>;
  HttpResponse exchange(const std::string& request, bool bodiless, OnPiece on_piece);
  std::string write_request(const std::string& method, const std::string& path, const HttpHeaders& headers,
                            const std::string& body) const;
  Socket connected(double deadline);

  HttpUrl url_;
  HttpClientOptions options_;
  Socket socket_;  // kept from the last call, where there is one
};

}  // namespace espalier
