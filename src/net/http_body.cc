#include "net/http_body.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "net/http_message.h"

namespace espalier {
namespace {

// Extensions of chunks and trailers mean nothing to us; they may not be used to keep us busy.
constexpr size_t kMaxLine = 4096, kMaxTrailer = 16384;

}  // namespace

BodyDecoder::BodyDecoder(BodyFraming framing, size_t max_bytes) : framing_(framing), max_bytes_(max_bytes) {
  using Kind = BodyFraming::Kind;
  if (framing.kind == Kind::kLength) left_ = framing.length;
  if (framing.kind == Kind::kUntilClose) left_ = std::numeric_limits<uint64_t>::max();
  if (framing.kind == Kind::kChunked) state_ = State::kChunkSize;
  else if (left_ > 0) state_ = State::kData;
  if (framing.kind == Kind::kLength && left_ > max_bytes_) too_large();
}

void BodyDecoder::too_large() const {
  throw http_error(413, "reading a body: more than the {} bytes that are accepted", max_bytes_);
}

size_t BodyDecoder::feed(std::string_view bytes, std::string& body) {
  size_t used = 0;
  while (used < bytes.size() && state_ != State::kDone) {
    const bool data = state_ == State::kData || state_ == State::kChunkData;
    used += data ? take(bytes.substr(used), body) : take_line(bytes.substr(used));
  }
  return used;
}

size_t BodyDecoder::take(std::string_view bytes, std::string& body) {
  const size_t n = size_t(std::min<uint64_t>(bytes.size(), left_));
  if (n > max_bytes_ - taken_) too_large();
  body.append(bytes.substr(0, n));
  taken_ += n;
  left_ -= n;
  if (left_ == 0) state_ = state_ == State::kData ? State::kDone : State::kChunkEnd;
  return n;
}

size_t BodyDecoder::take_line(std::string_view bytes) {
  const size_t newline = bytes.find('\n');
  const size_t n = newline == std::string_view::npos ? bytes.size() : newline + 1;
  if (line_.size() + n > kMaxLine) throw http_error(400, "reading a chunk: a line longer than {} bytes", kMaxLine);
  line_.append(bytes.substr(0, n));
  if (newline == std::string_view::npos) return n;
  if (!line_.ends_with("\r\n")) throw http_error(400, "reading a chunk: a line that does not end with CR LF");
  line_.resize(line_.size() - 2);
  end_line();
  line_.clear();
  return n;
}

void BodyDecoder::end_line() {
  if (state_ == State::kChunkSize) return begin_chunk();
  if (state_ == State::kChunkEnd) {
    if (!line_.empty()) throw http_error(400, "reading a chunk: more bytes than its size says");
    state_ = State::kChunkSize;
    return;
  }
  trailer_bytes_ += line_.size() + 2;
  if (trailer_bytes_ > kMaxTrailer) throw http_error(400, "reading a trailer: more than {} bytes", kMaxTrailer);
  if (line_.empty()) state_ = State::kDone;
}

void BodyDecoder::begin_chunk() {
  const char* end = line_.data() + line_.size();
  const auto [stop, status] = std::from_chars(line_.data(), end, left_, 16);
  // Blanks before an extension are bad form that RFC 9112 asks to bear.
  const char* rest = std::find_if(stop, end, [](char c) { return c != ' ' && c != '\t'; });
  if (status == std::errc::result_out_of_range) too_large();
  if (status != std::errc() || (rest != end && *rest != ';'))
    throw http_error(400, "reading a chunk: its size is no hexadecimal number");
  if (left_ > max_bytes_ - taken_) too_large();
  state_ = left_ == 0 ? State::kTrailer : State::kChunkData;
}

}  // namespace espalier
