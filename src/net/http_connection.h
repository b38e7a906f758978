// One connection of an HttpServer, on its thread: reads requests one after the other, has them handled, sends the
// replies in the same order, and keeps the deadlines. While a reply is due nothing is read: what a client sends ahead
// waits in its socket, which is all the flow control that pipelining needs.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "net/http_request_reader.h"
#include "net/http_server.h"
#include "net/poller.h"
#include "net/reply_state.h"

namespace espalier {

/// What the connections of a server share.
struct ConnectionHost {
  const HttpServerOptions& options;
  const HttpHandler& handler;
  HttpServerStats& stats;
  Log& log;
  Poller& poller;
  std::shared_ptr<WakeQueue> wake;
};

class HttpConnection {
 public:
  /// `key` is the connection's name in poller and wake queue.
  HttpConnection(ConnectionHost& host, Socket socket, uint64_t key);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// epoll saw something.
  void on_events(uint32_t events);
  /// The reply has news.
  void on_wake();
  /// Time passed.
  void on_time(double now);
  /// Answers without waiting for a request, and closes.
  void refuse(int status, const std::string& message);
  /// Closes after the reply that runs or the request that is under way; at once where there is neither.
  void drain();

  bool closed() const { return state_ == State::kClosed; }
  /// Whether it counts against the bound: it is not about to close.
  bool serving() const { return state_ == State::kReading || state_ == State::kReplying; }
  /// Whether a request is under way or its reply is.
  bool busy() const;

 private:
  enum class State { kReading, kReplying, kLingering, kClosed };

  void receive();
  void discard();
  void advance();
  void after_feeding(HttpRequestReader::State before);
  void dispatch();
  void handle(HttpRequest request, HttpReply reply);
  HttpResponse refusal(int status, const std::string& message) const;
  void collect();
  void begin_response(const HttpResponse& response, bool streamed);
  void append_piece(std::string_view piece);
  void flush();
  void end_reply();
  void note_half_closed();
  void send_probe();
  void linger();
  void close(bool reset);
  void watch();

  ConnectionHost& host_;
  Socket socket_;
  const uint64_t key_;
  State state_ = State::kReading;
  uint32_t watched_ = 0;
  double deadline_;  // of what the state waits for
  bool peer_half_closed_ = false, draining_ = false, keep_alive_ = true;

  std::string input_;  // received and not yet used, from input_at_ on
  size_t input_at_ = 0;
  HttpRequestReader reader_;

  std::shared_ptr<ReplyState> reply_;
  bool head_sent_ = false, reply_finished_ = false;
  bool chunked_ = false, bodiless_ = false;  // how the reply's body is sent
  int request_minor_ = 1;
  bool request_is_head_ = false;
  std::string heartbeat_, output_;  // output_ is to be sent from output_at_ on
  size_t output_at_ = 0;
  double next_probe_;
};

}  // namespace espalier
