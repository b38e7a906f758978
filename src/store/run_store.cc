#include "store/run_store.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"

namespace espalier {
namespace {

constexpr int kApplication = 0x45535031;  // "ESP1", in the file's header: this is a store of ours
constexpr int kBatchRows = 256;
constexpr double kBatchS = 1;

constexpr const char* kSchema = R"(
CREATE TABLE runs (id INTEGER PRIMARY KEY, started_s REAL, config TEXT, host TEXT, status TEXT);
CREATE TABLE metrics (name TEXT, step INTEGER, value REAL, wall_s REAL, run INTEGER, PRIMARY KEY (name, step))
  WITHOUT ROWID;
CREATE TABLE events (id INTEGER PRIMARY KEY, step INTEGER, kind TEXT, text TEXT, wall_s REAL, run INTEGER);
CREATE TABLE samples (id INTEGER PRIMARY KEY, step INTEGER, prompt TEXT, text TEXT, wall_s REAL, run INTEGER);
)";

/// `number` is the errno behind the status, 0 where there is none.
Error store_error(int status, int number, const std::string& attempt, const char* detail) {
  // SQLite calls a full disk an I/O error where it was about to grow the index that processes share.
  if (number == ENOSPC || number == EFBIG || number == EDQUOT || status == SQLITE_IOERR_SHMSIZE) status = SQLITE_FULL;
  switch (status & 0xFF) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return error(Code::kBadData, "{}: {}; the file is damaged or no run store, move it away", attempt, detail);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(Code::kTimeout, "{}: another process holds it; try again when that has ended", attempt);
    case SQLITE_FULL:
      return error(Code::kNoSpace, "{}: no space left on the disk; make room and try again", attempt);
    case SQLITE_NOMEM:
      return error(Code::kNoSpace, "{}: out of memory", attempt);
    default:
      return error(Code::kIo, "{}: {}", attempt, number ? std::strerror(number) : detail);
  }
}

using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

void bind(const Statement& s, int i, std::string_view text) {
  sqlite3_bind_text64(s.get(), i, text.data() ? text.data() : "", text.size(), SQLITE_STATIC, SQLITE_UTF8);
}
void bind(const Statement& s, int i, int64_t value) { sqlite3_bind_int64(s.get(), i, value); }
void bind(const Statement& s, int i, double value) { sqlite3_bind_double(s.get(), i, value); }  // NaN becomes NULL

template <class... Values>
void bind_all(const Statement& s, const Values&... values) {
  int i = 0;
  (bind(s, ++i, values), ...);
}

std::string text_at(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text ? std::string(text, size_t(sqlite3_column_bytes(row, column))) : "";
}

std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') uri += fmt::format("%{:02X}", int(c));
    else uri += c;
  }
  return uri + "?immutable=1";
}

std::string_view host_name(char (&name)[256]) {
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

struct RunStore::State {
  std::string path;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> db{nullptr, sqlite3_close};
  Statement add_metric{nullptr, sqlite3_finalize}, add_event{nullptr, sqlite3_finalize},
      add_sample{nullptr, sqlite3_finalize};
  std::mutex mutex;  // who logs from two threads shares one batch
  int64_t run = 0;
  int pending = 0;
  double batch_start_s = 0;

  ~State() {
    if (db && !sqlite3_get_autocommit(db.get())) sqlite3_exec(db.get(), "COMMIT", nullptr, nullptr, nullptr);
  }

  void check(int status, const char* doing) {
    if (status == SQLITE_OK || status == SQLITE_ROW || status == SQLITE_DONE) return;
    const int number = db ? sqlite3_system_errno(db.get()) : 0;
    throw store_error(db ? sqlite3_extended_errcode(db.get()) : status, number, fmt::format("{} {}", doing, path),
                      db ? sqlite3_errmsg(db.get()) : "out of memory");
  }

  void execute(const std::string& sql, const char* doing) {
    check(sqlite3_exec(db.get(), sql.c_str(), nullptr, nullptr, nullptr), doing);
  }

  Statement prepare(const char* sql, const char* doing) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db.get(), sql, -1, &statement, nullptr), doing);
    return {statement, sqlite3_finalize};
  }

  /// Runs a bound INSERT or UPDATE as part of the batch.
  void run_bound(const Statement& statement) {
    const int status = sqlite3_step(statement.get());
    sqlite3_reset(statement.get());
    check(status, "writing");
  }

  template <class Row>
  void read(const Statement& statement, Row&& each) {
    int status;
    while ((status = sqlite3_step(statement.get())) == SQLITE_ROW) each(statement.get());
    check(status, "reading");
  }

  int64_t number(const char* sql) {
    int64_t value = 0;
    read(prepare(sql, "opening"), [&](sqlite3_stmt* row) { value = sqlite3_column_int64(row, 0); });
    return value;
  }

  void begin_batch() {
    if (sqlite3_get_autocommit(db.get())) {  // no transaction: a new batch, or a failure rolled the last one back
      pending = 0;
      execute("BEGIN IMMEDIATE", "writing");
      batch_start_s = now_s();
    }
    ++pending;
  }

  void commit() {
    if (sqlite3_get_autocommit(db.get())) return;
    execute("COMMIT", "writing");
  }

  void maybe_commit() {
    if (pending >= kBatchRows || now_s() - batch_start_s > kBatchS) commit();
  }

  void log_text(const Statement& statement, int64_t step, std::string_view a, std::string_view b) {
    std::lock_guard lock(mutex);
    begin_batch();
    bind_all(statement, step, a, b, wall_clock_s(), run);
    run_bound(statement);
    maybe_commit();
  }

  void open(const std::string& name, int flags, int wait_ms) {
    sqlite3* handle = nullptr;
    const int status = sqlite3_open_v2(name.c_str(), &handle, flags, nullptr);
    db.reset(handle);
    check(status, "opening");
    sqlite3_busy_timeout(handle, wait_ms);
    if (flags & SQLITE_OPEN_CREATE) create();
    if (number("PRAGMA application_id") != kApplication)
      throw error(Code::kBadData, "opening {}: an SQLite file of another program; move it away", path);
    if (!(flags & SQLITE_OPEN_CREATE)) return;
    add_metric =
        prepare("INSERT OR REPLACE INTO metrics (name, step, value, wall_s, run) VALUES (?,?,?,?,?)", "opening");
    add_event = prepare("INSERT INTO events (step, kind, text, wall_s, run) VALUES (?,?,?,?,?)", "opening");
    add_sample = prepare("INSERT INTO samples (step, prompt, text, wall_s, run) VALUES (?,?,?,?,?)", "opening");
  }

  void create() {
    execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE", "opening");
    if (number("SELECT count(*) FROM sqlite_master") == 0)
      execute(fmt::format("{}; PRAGMA application_id = {}", kSchema, kApplication), "creating");
    execute("COMMIT", "opening");
  }
};

RunStore::RunStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunStore::RunStore(RunStore&&) noexcept = default;
RunStore::~RunStore() = default;

RunStore RunStore::open(const std::string& path, int wait_ms) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, wait_ms);
  return RunStore(std::move(state));
}

RunStore RunStore::open_existing(const std::string& path, int wait_ms) {
  if (::access(path.c_str(), F_OK) != 0) throw errno_error("opening " + path);
  auto state = std::make_unique<State>();
  state->path = path;
  // A reader, too, needs the shared index beside the file and takes it away again. Where nothing can be written, the
  // file cannot change either and is read as it is.
  if (::access(path.c_str(), W_OK) == 0)
    state->open(path, SQLITE_OPEN_READWRITE, wait_ms);
  else
    state->open(immutable_uri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, wait_ms);
  return RunStore(std::move(state));
}

int64_t RunStore::begin_run(std::string_view config, int64_t after_step) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  s.begin_batch();
  // Who begins holds the run folder: a run that is still called running ended without a word.
  s.execute("UPDATE runs SET status = 'killed' WHERE status = 'running'", "writing");
  for (const char* table : {"metrics", "events", "samples"})
    s.execute(fmt::format("DELETE FROM {} WHERE step > {}", table, after_step), "writing");
  const Statement add = s.prepare("INSERT INTO runs (started_s, config, host, status) VALUES (?,?,?,?)", "writing");
  char host[256] = {};
  bind_all(add, wall_clock_s(), config, host_name(host), std::string_view("running"));
  s.run_bound(add);
  s.run = sqlite3_last_insert_rowid(s.db.get());
  s.commit();
  return s.run;
}

void RunStore::set_status(std::string_view status) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  s.begin_batch();
  const Statement update = s.prepare("UPDATE runs SET status = ? WHERE id = (SELECT max(id) FROM runs)", "writing");
  bind_all(update, status);
  s.run_bound(update);
  s.commit();
}

void RunStore::log_metrics(int64_t step, std::span<const std::pair<std::string_view, double>> values) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  const double wall_s = wall_clock_s();
  for (const auto& [name, value] : values) {
    s.begin_batch();
    bind_all(s.add_metric, name, step, value, wall_s, s.run);
    s.run_bound(s.add_metric);
  }
  s.maybe_commit();
}

void RunStore::log_event(int64_t step, std::string_view kind, std::string_view text) {
  state_->log_text(state_->add_event, step, kind, text);
}

void RunStore::log_sample(int64_t step, std::string_view prompt, std::string_view text) {
  state_->log_text(state_->add_sample, step, prompt, text);
}

void RunStore::flush() {
  std::lock_guard lock(state_->mutex);
  state_->commit();
}

std::vector<RunRow> RunStore::runs() {
  std::vector<RunRow> rows;
  std::lock_guard lock(state_->mutex);
  state_->read(state_->prepare("SELECT id, started_s, config, host, status FROM runs ORDER BY id", "reading"),
               [&](sqlite3_stmt* row) {
                 rows.push_back({sqlite3_column_int64(row, 0), sqlite3_column_double(row, 1), text_at(row, 2),
                                 text_at(row, 3), text_at(row, 4)});
               });
  return rows;
}

std::vector<std::string> RunStore::metric_names() {
  std::vector<std::string> names;
  std::lock_guard lock(state_->mutex);
  state_->read(state_->prepare("SELECT DISTINCT name FROM metrics ORDER BY name", "reading"),
               [&](sqlite3_stmt* row) { names.push_back(text_at(row, 0)); });
  return names;
}

std::vector<MetricPoint> RunStore::metrics(std::string_view name) {
  std::vector<MetricPoint> points;
  std::lock_guard lock(state_->mutex);
  const Statement select =
      state_->prepare("SELECT step, value, wall_s FROM metrics WHERE name = ? ORDER BY step", "reading");
  bind_all(select, name);
  state_->read(select, [&](sqlite3_stmt* row) {
    const bool missing = sqlite3_column_type(row, 1) == SQLITE_NULL;
    const double value = missing ? std::numeric_limits<double>::quiet_NaN() : sqlite3_column_double(row, 1);
    points.push_back({sqlite3_column_int64(row, 0), value, sqlite3_column_double(row, 2)});
  });
  return points;
}

std::vector<EventRow> RunStore::events() {
  std::vector<EventRow> rows;
  std::lock_guard lock(state_->mutex);
  state_->read(state_->prepare("SELECT step, kind, text, wall_s FROM events ORDER BY id", "reading"),
               [&](sqlite3_stmt* row) {
                 rows.push_back({sqlite3_column_int64(row, 0), text_at(row, 1), text_at(row, 2),
                                 sqlite3_column_double(row, 3)});
               });
  return rows;
}

std::vector<SampleRow> RunStore::samples() {
  std::vector<SampleRow> rows;
  std::lock_guard lock(state_->mutex);
  state_->read(state_->prepare("SELECT step, prompt, text, wall_s FROM samples ORDER BY id", "reading"),
               [&](sqlite3_stmt* row) {
                 rows.push_back({sqlite3_column_int64(row, 0), text_at(row, 1), text_at(row, 2),
                                 sqlite3_column_double(row, 3)});
               });
  return rows;
}

}  // namespace espalier
