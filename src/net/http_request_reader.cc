#include "net/http_request_reader.h"

#include "base/check.h"

namespace espalier {

size_t HttpRequestReader::feed(std::string_view bytes) {
  size_t used = 0;
  if (state_ == State::kIdle || state_ == State::kHead) used = feed_head(bytes);
  if (state_ == State::kBody && used < bytes.size()) {
    head_.wants_continue = false;  // a client that sends without waiting needs no answer
    used += body_.feed(bytes.substr(used), head_.request.body);
  }
  if (state_ == State::kBody && body_.done()) state_ = State::kDone;
  return used;
}

size_t HttpRequestReader::feed_head(std::string_view bytes) {
  size_t used = 0;
  while (used < bytes.size()) {
    // Empty lines before a request are left over from clients that end a body with one (RFC 9112, 2.2).
    if (text_.empty() && (bytes[used] == '\r' || bytes[used] == '\n')) {
      ++used;
      continue;
    }
    if (text_.empty() && !is_token_char(bytes[used]))
      throw http_error(400, "reading a request: it begins with the byte 0x{:02x}; this port speaks HTTP, not HTTPS",
                       static_cast<unsigned char>(bytes[used]));
    state_ = State::kHead;
    const size_t newline = bytes.find('\n', used);
    const size_t end = newline == std::string_view::npos ? bytes.size() : newline + 1;
    if (text_.size() + (end - used) > limits_.max_header_bytes)
      throw http_error(line_begin_ == 0 ? 414 : 431, "reading a request: its header is longer than {} bytes",
                       limits_.max_header_bytes);
    text_.append(bytes.substr(used, end - used));
    used = end;
    if (newline == std::string_view::npos) break;
    if (!text_.ends_with("\r\n")) throw http_error(400, "reading a request: a line that does not end with CR LF");
    const bool empty_line = text_.size() == line_begin_ + 2;
    line_begin_ = text_.size();
    if (!empty_line) continue;
    end_head();
    break;
  }
  return used;
}

void HttpRequestReader::end_head() {
  head_ = parse_request_head(text_);
  body_ = BodyDecoder(head_.framing, limits_.max_body_bytes);
  text_.clear();
  line_begin_ = 0;
  state_ = body_.done() ? State::kDone : State::kBody;
}

HttpRequest HttpRequestReader::take() {
  ESP_CHECK(state_ == State::kDone, "no whole request is there");
  state_ = State::kIdle;
  return std::move(head_.request);
}

}  // namespace espalier
