#include "net/http_write.h"

#include <ctime>

#include "base/clock.h"

namespace espalier {
namespace {

bool speaks_of_framing(std::string_view name) {
  for (const char* own : {"Content-Length", "Transfer-Encoding", "Connection"})
    if (equal_ignoring_case(name, own)) return true;
  return false;
}

void append_field(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ");
  for (const char c : value) head += (c >= 0 && c < ' ') || c == 127 ? ' ' : c;
  head += "\r\n";
}

}  // namespace

std::string http_date(double wall_s) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto seconds = time_t(wall_s);
  std::tm t{};
  ::gmtime_r(&seconds, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday, kMonths[t.tm_mon],
                     t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

std::string write_response_head(const HttpResponse& response, const ResponseFraming& framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, status_reason(response.status));
  append_field(head, "Date", http_date(wall_clock_s()));
  for (const HttpHeaders::Field& field : response.headers)
    if (!speaks_of_framing(field.name)) append_field(head, field.name, field.value);
  if (framing.chunked) append_field(head, "Transfer-Encoding", "chunked");
  else if (framing.has_length) append_field(head, "Content-Length", std::to_string(response.body.size()));
  if (!framing.keep_alive) append_field(head, "Connection", "close");
  else if (framing.minor_version == 0) append_field(head, "Connection", "keep-alive");
  return head + "\r\n";
}

}  // namespace espalier
