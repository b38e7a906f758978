// Terminal: what a verb is given to talk with. Data goes to standard output, log and progress to standard error; the
// Context for the library; Ctrl-C.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/config.h"
#include "base/context.h"
#include "base/progress.h"

namespace espalier {

/// Flags that every verb has.
struct Settings {
  std::string log_level = "info";
  int64_t threads = 0;
  void visit(Fields& f) {
    f.choice("log_level", log_level, {"trace", "debug", "info", "warn", "error"}, "how much to say on standard error");
    f.field("threads", threads, "threads to compute with; 0 is one a core", 0, 1024);
  }
};

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Standard output, buffered. A failure to write is an Error at the latest in flush().
  void write(std::string_view text);
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void flush();

  Log& log();
  /// After Ctrl-C its update() throws kInterrupted on the verb's thread, unless own_interrupts() was called.
  Progress& progress();
  /// Thread pool of --threads, the log and the machine's ISA; made on first use. Its pool stops with kInterrupted
  /// likewise.
  Context& context();

  bool out_is_tty() const;
  /// May standard output show colour, and more than ASCII?
  bool out_colour() const;
  bool out_utf8() const;
  int out_width() const;

  /// The user pressed Ctrl-C (or SIGTERM or SIGHUP came). A second time ends the program at once.
  bool interrupted() const;
  /// It was no Ctrl-C but SIGTERM or SIGHUP, which mean the program and not what it is just doing.
  bool told_to_end() const;
  /// What was stopped has stopped: interrupted() is false again, and the next Ctrl-C is a first one.
  void forget_interrupts();
  /// Throws Error kInterrupted if interrupted().
  void check_interrupt() const;
  /// From now on the verb itself looks at interrupted() and stops in its own good time.
  void own_interrupts();
  bool owns_interrupts() const;

  Settings& settings();
  /// Applies them; called by read_args.
  void settings_changed();
  /// One line "error: MESSAGE" on standard error, below whatever progress was shown.
  void report_error(std::string_view message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
