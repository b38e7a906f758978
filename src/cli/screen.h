// Screen: standard error as lines that stay and, below them on a terminal, one live line that is redrawn. Log and
// progress bar share it, so that a log line never cuts a bar in two.
#pragma once
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace espalier {

/// What a stream can show.
struct Look {
  bool tty = false;
  bool colour = false;  ///< a terminal, and NO_COLOR is not set
  bool utf8 = false;
};

/// The look of a file descriptor under this environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE, LANG).
Look look_of(int fd);

/// Columns that UTF-8 text takes: one a character, escape sequences none.
int columns(std::string_view text);
/// The first `width` columns of it, escape sequences kept whole.
std::string cut_to(std::string_view text, int width);

class Screen {
 public:
  /// `width` 0 asks the terminal before each drawing.
  Screen(std::FILE* file, Look look, int width = 0);
  /// Leaves a live line as it is and ends it.
  ~Screen();

  /// Prints a whole line above the live one. From any thread.
  void line(std::string_view text);
  /// Replaces the live line (terminals only). From any thread.
  void live(std::string_view text);
  /// The live line becomes an ordinary one.
  void release();

  int width() const;
  const Look& look() const { return look_; }

 private:
  void put(std::string_view text);

  std::FILE* file_;
  Look look_;
  int width_;
  std::mutex mutex_;
  std::string live_;
};

}  // namespace espalier
