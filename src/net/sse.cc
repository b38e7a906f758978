#include "net/sse.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace espalier {

std::string sse_data(std::string_view text) {
  std::string event;
  event.reserve(text.size() + 8);
  for (;;) {
    const size_t end = std::min(text.find('\n'), text.size());
    event.append("data: ").append(text.substr(0, end)).append("\n");
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  return event += '\n';
}

void SseReader::push(std::string_view bytes) {
  bytes_.erase(0, at_);
  scanned_ -= at_;
  at_ = 0;
  if (bytes_.size() + bytes.size() + event_.data.size() > max_bytes_)
    throw error(Code::kBadData, "reading a stream of events: one has more than {} bytes", max_bytes_);
  bytes_.append(bytes);
}

std::optional<std::string_view> SseReader::take_line() {
  if (after_cr_ && at_ < bytes_.size()) {
    if (bytes_[at_] == '\n') ++at_;
    after_cr_ = false;
  }
  const size_t end = bytes_.find_first_of("\r\n", std::max(at_, scanned_));
  scanned_ = bytes_.size();
  if (end == std::string::npos) return std::nullopt;
  const std::string_view line = std::string_view(bytes_).substr(at_, end - at_);
  after_cr_ = bytes_[end] == '\r';
  at_ = scanned_ = end + 1;
  return line;
}

void SseReader::take_field(std::string_view line) {
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") event_.name = value;
  if (name != "data") return;  // comments, ids and retry times
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data.append(value);
}

std::optional<SseEvent> SseReader::next() {
  while (const std::optional<std::string_view> line = take_line()) {
    if (!line->empty()) {
      take_field(*line);
      continue;
    }
    SseEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false)) return event;
  }
  return std::nullopt;
}

}  // namespace espalier
