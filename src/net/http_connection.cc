#include "net/http_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <limits>

#include "base/clock.h"
#include "net/http_write.h"

namespace espalier {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// How long a client may take to see our last words before the socket closes under it: what it still sends is read and
// dropped until then, since closing with unread bytes would reset the connection and destroy the response on its way.
constexpr double kLingerS = 5;
constexpr double kProbeAgainS = 5;
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr int kDiscardsAnEvent = 16;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

}  // namespace

HttpConnection::HttpConnection(ConnectionHost& host, Socket socket, uint64_t key)
    : host_(host),
      socket_(std::move(socket)),
      key_(key),
      watched_(EPOLLIN),
      deadline_(now_s() + host.options.header_s),
      reader_(host.options.limits),
      next_probe_(kNever) {
  tune_tcp(socket_);
  host_.poller.add(socket_, watched_, key_);
}

HttpConnection::~HttpConnection() { close(true); }

bool HttpConnection::busy() const {
  if (state_ == State::kReading) return reader_.state() != HttpRequestReader::State::kIdle;
  return state_ == State::kReplying;
}

void HttpConnection::on_events(uint32_t events) {
  const bool gone = events & EPOLLERR || (state_ == State::kReplying && events & EPOLLHUP);
  if (gone) return close(false);
  if (events & EPOLLOUT) flush();
  if (state_ == State::kReplying && events & EPOLLRDHUP) note_half_closed();
  if (state_ == State::kReading && events & (EPOLLIN | EPOLLHUP)) receive();
  if (state_ == State::kLingering) discard();
  advance();
  watch();
}

void HttpConnection::on_wake() {
  collect();
  advance();
  watch();
}

void HttpConnection::on_time(double now) {
  if (state_ == State::kReplying && now >= next_probe_ && (peer_half_closed_ || head_sent_)) send_probe();
  if (now >= deadline_) {
    if (state_ == State::kReading && !busy()) {
      linger();
    } else if (state_ == State::kReading) {
      ++host_.stats.timed_out;
      refuse(408, "reading a request: it did not come whole in time");
    } else {
      host_.stats.too_slow += state_ == State::kReplying;
      close(state_ == State::kReplying);
    }
  }
  watch();
}

void HttpConnection::drain() {
  draining_ = true;
  if (state_ == State::kReading && !busy()) linger();
  watch();
}

// One read an event: the others have their turn, and what is left is reported again.
void HttpConnection::receive() {
  char buffer[kReadBytes];
  const ssize_t n = ::recv(socket_.fd(), buffer, sizeof buffer, 0);
  if (n > 0) input_.append(buffer, size_t(n));
  // The end of what the client sends; all requests before it are answered.
  else if (n == 0 || (errno != EAGAIN && errno != EINTR)) close(false);
}

void HttpConnection::discard() {
  char buffer[kReadBytes];
  for (int i = 0; i < kDiscardsAnEvent; ++i) {
    const ssize_t n = ::recv(socket_.fd(), buffer, sizeof buffer, 0);
    if (n > 0) continue;
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) close(false);
    return;
  }
}

/// Reads requests from the input until one has to wait for its reply.
void HttpConnection::advance() {
  while (state_ == State::kReading && input_at_ < input_.size()) {
    const HttpRequestReader::State before = reader_.state();
    try {
      input_at_ += reader_.feed(std::string_view(input_).substr(input_at_));
    } catch (const HttpError& e) {  // the edge: what a client sends wrong is answered
      ++host_.stats.malformed;
      return refuse(e.status(), e.what());
    }
    after_feeding(before);
  }
  if (input_at_ < input_.size()) return;
  input_.clear();
  input_at_ = 0;
}

void HttpConnection::after_feeding(HttpRequestReader::State before) {
  using Reading = HttpRequestReader::State;
  const Reading now = reader_.state();
  if (now == Reading::kDone) return dispatch();
  if (now == before) return;
  deadline_ = now_s() + (now == Reading::kHead ? host_.options.header_s : host_.options.body_s);
  if (!reader_.wants_continue()) return;
  output_ += kContinue;
  flush();
}

void HttpConnection::dispatch() {
  HttpRequest request = reader_.take();
  ++host_.stats.requests;
  state_ = State::kReplying;
  deadline_ = kNever;
  next_probe_ = now_s() + host_.options.heartbeat_s;
  keep_alive_ = request.keep_alive;
  request_minor_ = request.minor_version;
  request_is_head_ = request.method == "HEAD";
  reply_ = std::make_shared<ReplyState>(host_.wake, key_, host_.options.max_unsent_bytes);
  handle(std::move(request), HttpReply(reply_));
  collect();
}

void HttpConnection::handle(HttpRequest request, HttpReply reply) {
  HttpResponse response;
  try {
    return host_.handler(std::move(request), reply);
  } catch (const HttpError& e) {  // the edge: a request's failure is its answer
    response = refusal(e.status(), e.what());
  } catch (const Error& e) {  // the same edge
    response = refusal(code_info(e.code()).http_status, e.what());
  } catch (const std::exception& e) {  // the same edge, and a fault of ours
    host_.log.error("handling a request: {}", e.what());
    response = refusal(500, "an error inside the server");
  }
  if (reply.started()) reply.abort();
  else reply.send(std::move(response));
}

HttpResponse HttpConnection::refusal(int status, const std::string& message) const {
  return host_.options.refusal ? host_.options.refusal(status, message) : text_response(status, message + "\n");
}

void HttpConnection::refuse(int status, const std::string& message) {
  state_ = State::kReplying;
  keep_alive_ = request_is_head_ = false;
  request_minor_ = 1;
  begin_response(refusal(status, message), false);
  reply_finished_ = true;
  flush();
  watch();
}

/// Takes what was put into the reply, and sends what the socket takes.
void HttpConnection::collect() {
  if (!reply_ || state_ != State::kReplying) return;
  ReplyState::News news = reply_->take();
  if (news.head) {
    heartbeat_ = std::move(news.heartbeat);
    begin_response(*news.head, news.streamed);
  }
  append_piece(news.bytes);
  if (news.aborted) {
    host_.stats.too_slow += news.too_slow;
    return close(true);
  }
  if (news.finished && chunked_ && !bodiless_) output_ += "0\r\n\r\n";
  reply_finished_ = news.finished;
  flush();
}

void HttpConnection::begin_response(const HttpResponse& response, bool streamed) {
  head_sent_ = true;
  bodiless_ = request_is_head_ || has_no_body(response.status);
  chunked_ = streamed && request_minor_ >= 1;
  // Without chunks nothing but the end of the connection tells where a streamed body ends.
  const bool endless = streamed && !chunked_ && !bodiless_;
  if (draining_ || endless || response.headers.has_token("Connection", "close")) keep_alive_ = false;
  output_ += write_response_head(response, {.chunked = chunked_ && !has_no_body(response.status),
                                            .has_length = !streamed && !has_no_body(response.status),
                                            .keep_alive = keep_alive_,
                                            .minor_version = request_minor_});
  if (!streamed && !bodiless_) output_ += response.body;
}

void HttpConnection::append_piece(std::string_view piece) {
  if (piece.empty() || bodiless_) return;
  if (chunked_) fmt::format_to(std::back_inserter(output_), "{:x}\r\n", piece.size());
  output_.append(piece);
  if (chunked_) output_ += "\r\n";
  next_probe_ = now_s() + (peer_half_closed_ ? kProbeAgainS : host_.options.heartbeat_s);
}

void HttpConnection::flush() {
  if (state_ == State::kClosed) return;
  const size_t before = output_at_;
  while (output_at_ < output_.size()) {
    const ssize_t n = ::send(socket_.fd(), output_.data() + output_at_, output_.size() - output_at_, MSG_NOSIGNAL);
    if (n > 0) output_at_ += size_t(n);
    else if (errno == EAGAIN) break;
    else if (errno != EINTR) return close(false);
  }
  const bool progress = output_at_ > before;
  const size_t held = output_.size() - output_at_;
  if (reply_) reply_->set_held(held);
  if (state_ == State::kReplying && held == 0) deadline_ = kNever;
  else if (state_ == State::kReplying && (progress || deadline_ == kNever)) deadline_ = now_s() + host_.options.stall_s;
  // A client that lags for ever must not make us keep for ever what it has read.
  if (held == 0 || output_at_ > std::max(held, kReadBytes)) {
    output_.erase(0, output_at_);
    output_at_ = 0;
  }
  if (held == 0 && reply_finished_) end_reply();
}

void HttpConnection::end_reply() {
  reply_.reset();
  head_sent_ = reply_finished_ = false;
  heartbeat_.clear();
  if (!keep_alive_ || draining_) return linger();
  state_ = State::kReading;
  deadline_ = now_s() + host_.options.idle_s;
}

void HttpConnection::note_half_closed() {
  if (std::exchange(peer_half_closed_, true)) return;
  send_probe();
}

/// Sends what means nothing, so that a socket that is closed on the other side answers with a reset.
void HttpConnection::send_probe() {
  next_probe_ = now_s() + (peer_half_closed_ ? kProbeAgainS : host_.options.heartbeat_s);
  if (head_sent_ && !reply_finished_) append_piece(heartbeat_);
  if (!head_sent_ && request_minor_ >= 1) output_ += kContinue;
  flush();
}

void HttpConnection::linger() {
  ::shutdown(socket_.fd(), SHUT_WR);
  state_ = State::kLingering;
  deadline_ = now_s() + kLingerS;
}

/// `reset` tells the client that what it got is not whole, and frees what the system still holds for it.
void HttpConnection::close(bool reset) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const ::linger at_once{1, 0};
  if (reset) ::setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  host_.poller.remove(socket_);
  socket_.close();
  if (!reply_ || reply_finished_) return;
  host_.stats.vanished += !reset;
  reply_->cancel();
}

/// Watches for what the state waits for. What is not wanted must not be watched: epoll would report it without end.
void HttpConnection::watch() {
  if (state_ == State::kClosed) return;
  uint32_t wanted = state_ != State::kReplying ? uint32_t{EPOLLIN} : peer_half_closed_ ? 0 : uint32_t{EPOLLRDHUP};
  if (!output_.empty()) wanted |= EPOLLOUT;
  if (wanted == watched_) return;
  watched_ = wanted;
  host_.poller.change(socket_, wanted, key_);
}

}  // namespace espalier
