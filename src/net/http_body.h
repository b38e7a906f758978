// The body of an HTTP/1.1 message, from bytes that come in any pieces: of a known length, in chunks, or until the peer
// closes (RFC 9112, 6 and 7). Used by the server for requests and by the client for responses.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

struct BodyFraming {
  enum class Kind { kNone, kLength, kChunked, kUntilClose };
  Kind kind = Kind::kNone;
  uint64_t length = 0;  ///< of kLength
};

class BodyDecoder {
 public:
  BodyDecoder() = default;
  /// Throws HttpError 413 where the length announced is more than max_bytes.
  BodyDecoder(BodyFraming framing, size_t max_bytes);

  /// Appends to `body` what `bytes` hold of it and returns how many of them were used: all of them before the end,
  /// none behind it. Throws HttpError 413 where the body grows beyond its bound, 400 where chunks are malformed.
  size_t feed(std::string_view bytes, std::string& body);
  /// False for ever where the body ends with the connection.
  bool done() const { return state_ == State::kDone; }
  bool ends_with_connection() const { return framing_.kind == BodyFraming::Kind::kUntilClose; }

 private:
  enum class State { kData, kChunkSize, kChunkData, kChunkEnd, kTrailer, kDone };
  size_t take(std::string_view bytes, std::string& body);
  size_t take_line(std::string_view bytes);
  void end_line();
  void begin_chunk();
  void too_large() const;

  BodyFraming framing_;
  State state_ = State::kDone;
  size_t max_bytes_ = 0;
  uint64_t taken_ = 0, left_ = 0;  // bytes of the body so far; of the body or the chunk still to come
  std::string line_;               // of a chunk's size or a trailer, as far as it has come
  size_t trailer_bytes_ = 0;
};

}  // namespace espalier
