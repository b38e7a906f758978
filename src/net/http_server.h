// An HTTP/1.1 server on one thread: an event loop owns the sockets, reads requests, calls the handler, and sends what
// handlers and other threads put into replies. What it is built for are many slow answers at once (streams of tokens):
// a connection costs memory, not a thread, and everything a client may do has a bound in time and in bytes.
//
//   connecting  more than max_connections: 503 at once
//   sending     header_s for a header, body_s for a body (408), their sizes (431, 413), malformed (400)
//   waiting     a client that has closed is noticed while nothing is sent yet. A closed socket and one whose sending
//               half alone was closed, which still wants its answer, look the same until something is sent: so
//               something harmless is (100 Continue, a stream's heartbeat), and only the closed one rejects it
//   reading     no progress for stall_s, or more than max_unsent_bytes of a stream waiting: dropped
//   idle        closed after idle_s
//
// TLS, HTTP/2 and compression are left to a proxy in front.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "net/http_message.h"
#include "net/http_reply.h"
#include "net/http_request_reader.h"

namespace espalier {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  ///< 0 takes a free one
  int backlog = 1024;
  size_t max_connections = 512;
  HttpLimits limits;
  size_t max_unsent_bytes = size_t{1} << 20;  ///< of a streamed body
  double header_s = 10, body_s = 60, idle_s = 60, stall_s = 20;
  double heartbeat_s = 15;  ///< silence of a stream before its heartbeat is sent
  /// The response for what the server itself refuses; the default is the message as text.
  std::function<HttpResponse(int status, const std::string& message)> refusal;
};

/// Counts since the start, but for `connections`. Any thread may read them.
struct HttpServerStats {
  std::atomic<int64_t> connections{0};  ///< open now
  std::atomic<int64_t> accepted{0}, requests{0};
  std::atomic<int64_t> refused{0};     ///< for there were too many connections
  std::atomic<int64_t> malformed{0};   ///< requests answered with 4xx or 5xx before a handler saw them
  std::atomic<int64_t> timed_out{0};   ///< requests that did not come in time
  std::atomic<int64_t> vanished{0};    ///< clients that went before their reply was complete
  std::atomic<int64_t> too_slow{0};    ///< clients dropped because they did not read
};

/// Called on the server's thread, which must not be held up: what takes time belongs to another thread, with the reply.
/// An exception becomes a response: of an HttpError its status, of an Error its code's HTTP status, otherwise 500.
using HttpHandler = std::function<void(HttpRequest request, HttpReply reply)>;

class HttpServer {
 public:
  /// Listens and begins to serve. Throws as listen_tcp does.
  HttpServer(HttpServerOptions options, HttpHandler handler, Log& log = silent_log());
  /// Stops at once: what still runs is cancelled.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  /// "http://127.0.0.1:8080"
  std::string url() const;
  const HttpServerStats& stats() const;

  /// Stops in good order: accepts nobody, closes idle connections, and waits until every reply that runs is sent or
  /// `seconds` have passed. True where all were. Afterwards the server is stopped. Not from a handler.
  bool drain(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
