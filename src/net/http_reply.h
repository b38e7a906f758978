// HttpReply: where the answer to a request is put, now or later, whole or piece by piece, from any thread. It is
// cheap to copy, outlives connection and server, and never blocks: bytes wait in a bounded buffer until the server's
// thread has sent them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace espalier {

class ReplyState;

class HttpReply {
 public:
  /// For the server; `state` is what the connection reads from.
  explicit HttpReply(std::shared_ptr<ReplyState> state);

  /// The whole response. Content-Length, Date and Connection are added; a Connection: close in it is honoured.
  void send(HttpResponse response);

  /// Begins a response whose body comes in pieces; a body in `head` is the first of them. `heartbeat` is a piece that
  /// means nothing to the client (": \n\n" in a stream of events): it is sent where nothing was written for a while,
  /// so that proxies do not lose patience and a client that is gone is noticed.
  void start(HttpResponse head, std::string heartbeat = "");
  /// A piece of the body. False where the client is gone, or was dropped because it does not read what it asked for.
  bool write(std::string_view piece);
  /// Ends the body.
  void finish();
  /// The end that cannot be told otherwise once a body has begun: cuts the connection, so that the client sees a
  /// broken body and not a short one. Where nothing has begun, a response of status 500.
  void abort();

  /// Whether send or start was called.
  bool started() const;
  /// Whether the client went away before the reply was complete. Whoever works for it should stop.
  bool cancelled() const;
  /// Calls `callback` once when cancelled() becomes true, from the server's thread, which it must not hold up; at once
  /// where it is true already, never where the reply completes first. It replaces an earlier callback.
  void on_cancelled(std::function<void()> callback);
  /// Bytes of the body written but not taken by the system yet; for writers that want to wait for a slow client.
  size_t unsent_bytes() const;

 private:
  // Shared by the copies of this reply: when the last of them goes and the reply is not complete, it is aborted.
  std::shared_ptr<ReplyState> state_;
};

}  // namespace espalier
