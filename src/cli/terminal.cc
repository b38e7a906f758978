#include "cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <thread>

#include "base/error.h"
#include "cli/progress_bar.h"
#include "cli/screen.h"

namespace espalier {
namespace {

// Signals reach a process, not an object: this one flag is global.
std::atomic<int> interrupts{0};
std::atomic<bool> told_to_end{false};

void on_interrupt(int signal) {
  if (signal != SIGINT) told_to_end.store(true);
  if (interrupts.fetch_add(1) == 0) return;
  constexpr char kNewline = '\n';
  [[maybe_unused]] const ssize_t ignored = ::write(2, &kNewline, 1);
  ::_exit(code_info(Code::kInterrupted).exit_status);
}

/// Descriptors 0 to 2 that are closed would be given to the first files that are opened, and what is printed would end
/// up in a checkpoint. Something that fails like a closed one stands in their place.
void hold_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]] const int held = ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

void listen_for(int signal) {
  struct sigaction action {}, before {};
  ::sigaction(signal, nullptr, &before);
  if (signal == SIGHUP && before.sa_handler == SIG_IGN) return;  // nohup
  action.sa_handler = on_interrupt;
  ::sigaction(signal, &action, nullptr);
}

/// One line, whatever a file's name holds.
std::string one_line(std::string_view message) {
  std::string line;
  for (const char c : message) {
    if (c == '\n')
      line += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      line += fmt::format("\\x{:02x}", c);
    else
      line += c;
  }
  return line;
}

class StderrLog : public Log {
 public:
  explicit StderrLog(Screen& screen) : screen_(screen) {}

 private:
  void write(LogLevel level, const std::string& message) override {
    constexpr const char* kPrefix[] = {"trace: ", "debug: ", "", "warning: ", "error: "};
    constexpr const char* kColour[] = {"90", "90", "", "33", "31"};
    const std::string prefix = kPrefix[int(level)];
    if (prefix.empty() || !screen_.look().colour) return screen_.line(prefix + message);
    screen_.line(fmt::format("\x1b[{}m{}\x1b[0m{}", kColour[int(level)], prefix, message));
  }
  Screen& screen_;
};

/// The program's bar: work that reports progress can be stopped, also where no thread pool runs.
class StoppableBar : public ProgressBar {
 public:
  StoppableBar(Screen& screen, std::function<void()> check) : ProgressBar(screen), check_(std::move(check)) {}

  void update(int64_t done, const std::string& note) override {
    ProgressBar::update(done, note);
    // Only the thread that runs the verb can be unwound.
    if (std::this_thread::get_id() == thread_) check_();
  }

 private:
  std::function<void()> check_;
  std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace

struct Terminal::State {
  explicit State(std::function<void()> check) : bar(screen, std::move(check)) {}

  Look out = look_of(STDOUT_FILENO);
  Screen screen{stderr, look_of(STDERR_FILENO)};
  StderrLog log{screen};
  StoppableBar bar;
  Settings settings;
  std::optional<ThreadPool> pool;
  std::optional<Context> context;
  bool owns_interrupts = false;
};

Terminal::Terminal() {
  state_ = std::make_unique<State>([this] {
    if (!state_->owns_interrupts) check_interrupt();
  });
  hold_standard_streams();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) listen_for(signal);
  ::signal(SIGXFSZ, SIG_IGN);  // a file over `ulimit -f` is an error of the write, not the end
}

Terminal::~Terminal() = default;

void Terminal::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw errno_error("writing to standard output");
}

void Terminal::flush() {
  if (std::fflush(stdout) != 0) throw errno_error("writing to standard output");
}

Log& Terminal::log() { return state_->log; }
Progress& Terminal::progress() { return state_->bar; }

Context& Terminal::context() {
  State& s = *state_;
  if (!s.context) {
    const Isa isa = choose_isa();
    s.pool.emplace(int(s.settings.threads));
    if (!s.owns_interrupts) s.pool->poll = [this] { check_interrupt(); };
    s.context.emplace(Context{*s.pool, s.log, isa});
  }
  return *s.context;
}

bool Terminal::out_is_tty() const { return state_->out.tty; }
bool Terminal::out_colour() const { return state_->out.colour; }
bool Terminal::out_utf8() const { return state_->out.utf8; }

int Terminal::out_width() const {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool Terminal::interrupted() const { return interrupts.load() > 0; }
bool Terminal::told_to_end() const { return ::espalier::told_to_end.load(); }
void Terminal::forget_interrupts() { interrupts.store(0); }

void Terminal::check_interrupt() const {
  if (interrupted()) throw Error(Code::kInterrupted, "interrupted");
}

void Terminal::own_interrupts() {
  state_->owns_interrupts = true;
  ::signal(SIGPIPE, SIG_IGN);  // long work does not end because nobody reads its news any more
  if (state_->pool) state_->pool->poll = nullptr;
}

bool Terminal::owns_interrupts() const { return state_->owns_interrupts; }

Settings& Terminal::settings() { return state_->settings; }
void Terminal::settings_changed() { state_->log.set_level(parse_log_level(state_->settings.log_level)); }

void Terminal::report_error(std::string_view message) {
  state_->screen.release();
  const bool colour = state_->screen.look().colour;
  state_->screen.line(fmt::format("{}error:{} {}", colour ? "\x1b[31m" : "", colour ? "\x1b[0m" : "",
                                   one_line(message)));
}

}  // namespace espalier
