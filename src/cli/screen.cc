#include "cli/screen.h"

#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace espalier {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

bool set_in_environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (set_in_environment(name)) {
      const std::string value = std::getenv(name);
      const size_t dot = value.find('.');
      return dot != std::string::npos && (strcasecmp(value.c_str() + dot, ".UTF-8") == 0 ||
                                          strcasecmp(value.c_str() + dot, ".utf8") == 0);
    }
  return false;
}

/// Bytes of the character or escape sequence that begins at `i`, and the columns it takes.
std::pair<size_t, int> unit_at(std::string_view text, size_t i) {
  if (text[i] == '\x1b') {
    size_t end = i + 1;
    while (end < text.size() && !(text[end] >= '@' && text[end] <= '~' && text[end] != '[')) ++end;
    return {std::min(end + 1, text.size()) - i, 0};
  }
  size_t end = i + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return {end - i, 1};
}

}  // namespace

Look look_of(int fd) {
  const char* term = std::getenv("TERM");
  Look look;
  look.tty = ::isatty(fd) && !(term && std::string_view(term) == "dumb");
  look.colour = look.tty && !set_in_environment("NO_COLOR");
  look.utf8 = utf8_locale();
  return look;
}

int columns(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size();) {
    const auto [bytes, cells] = unit_at(text, i);
    width += cells;
    i += bytes;
  }
  return width;
}

std::string cut_to(std::string_view text, int width) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto [bytes, cells] = unit_at(text, i);
    if (cells <= width) out += text.substr(i, bytes);
    width = cells <= width ? width - cells : 0;
    i += bytes;
  }
  return out;
}

Screen::Screen(std::FILE* file, Look look, int width) : file_(file), look_(look), width_(width) {}

Screen::~Screen() { release(); }

int Screen::width() const {
  winsize size{};
  if (width_ > 0) return width_;
  if (::ioctl(::fileno(file_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void Screen::put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void Screen::line(std::string_view text) {
  std::lock_guard lock(mutex_);
  std::string out = live_.empty() ? "" : std::string(kEraseLine);
  out += text;
  put(out + "\n" + live_);
}

void Screen::live(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (!look_.tty) return;
  // The last column stays free: some terminals wrap when it is filled.
  live_ = cut_to(text, width() - 1);
  put(std::string(kEraseLine) + live_);
}

void Screen::release() {
  std::lock_guard lock(mutex_);
  if (!live_.empty()) put("\n");
  live_.clear();
}

}  // namespace espalier
