// Server-sent events, the text/event-stream of the HTML standard: how tokens are streamed over HTTP.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

struct SseEvent {
  std::string name;  ///< of the field "event"; mostly empty
  std::string data;  ///< its lines "data: ..." joined by line feeds
};

/// "data: TEXT\n\n"; text of several lines becomes several data lines.
std::string sse_data(std::string_view text);

/// What a stream may say that means nothing: for HttpReply::start.
inline constexpr const char* kSseHeartbeat = ": \n\n";

/// Events from a stream that comes in any pieces. Lines may end with CR LF, LF or CR; comments are skipped.
class SseReader {
 public:
  /// An event may have at most max_bytes.
  explicit SseReader(size_t max_bytes = size_t{16} << 20) : max_bytes_(max_bytes) {}

  /// Appends bytes. Throws Error kBadData where an event is larger than it may be.
  void push(std::string_view bytes);
  /// The next whole event.
  std::optional<SseEvent> next();

 private:
  std::optional<std::string_view> take_line();
  void take_field(std::string_view line);

  size_t max_bytes_;
  std::string bytes_;
  size_t at_ = 0, scanned_ = 0;  // of bytes_: used up; searched for a line's end
  bool after_cr_ = false;        // a line feed that comes next belongs to the line's end before it
  SseEvent event_;
  bool has_data_ = false;
};

}  // namespace espalier
