#include "net/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "net/http_connection.h"

namespace espalier {
namespace {

constexpr uint64_t kListenerKey = 0, kWakeKey = 1, kFirstConnection = 2;
constexpr double kTickS = 0.1;            // how exactly deadlines are kept
constexpr int kAcceptsAnEvent = 64;       // before those who are connected have their turn
constexpr size_t kMaxBeingRefused = 256;  // connections that hear 503; beyond them they hear nothing

std::string shown_host(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "[::1]";
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

struct HttpServer::Impl {
  Impl(HttpServerOptions given, HttpHandler handle, Log& to)
      : options(std::move(given)), handler(std::move(handle)), log(to) {
    listener = listen_tcp(options.host, options.port, options.backlog);
    port = local_port(listener);
    poller.add(listener, EPOLLIN, kListenerKey);
    poller.add(wake->socket(), EPOLLIN, kWakeKey);
    thread = start_thread([this] { run(); });
  }

  void run();
  void on_event(const Poller::Event& event);
  void accept_all();
  void admit(Socket socket);
  void pause_accepting();
  void on_tick(double now);
  void begin_draining();
  bool anyone_busy() const;
  template <class F>
  bool guarded(F act);
  template <class F>
  void with_connection(uint64_t key, F act);
  void stop();

  const HttpServerOptions options;
  const HttpHandler handler;
  Log& log;
  HttpServerStats stats;
  Poller poller;
  const std::shared_ptr<WakeQueue> wake = std::make_shared<WakeQueue>();
  ConnectionHost host{options, handler, stats, log, poller, wake};
  Socket listener;
  int port = 0;

  // Of the server's thread.
  std::unordered_map<uint64_t, std::unique_ptr<HttpConnection>> connections;
  uint64_t next_key = kFirstConnection;
  double next_tick = 0;
  bool accepting = true;

  std::atomic<bool> stopping{false}, draining{false};
  std::mutex mutex;
  std::condition_variable drained;
  bool is_drained = false;
  std::thread thread;
};

void HttpServer::Impl::run() {
  while (!stopping) {
    const bool deadlines = !connections.empty() || (!accepting && !draining);
    for (const Poller::Event& event : poller.wait(deadlines ? kTickS : -1)) on_event(event);
    if (const double now = now_s(); now >= next_tick) on_tick(now);
    if (!draining) continue;
    begin_draining();
    if (anyone_busy()) continue;
    const std::lock_guard lock(mutex);
    is_drained = true;
    drained.notify_all();
  }
  connections.clear();
}

void HttpServer::Impl::on_event(const Poller::Event& event) {
  if (event.key == kListenerKey) return accept_all();
  if (event.key != kWakeKey) return with_connection(event.key, [&](HttpConnection& c) { c.on_events(event.events); });
  for (const uint64_t key : wake->take()) with_connection(key, [](HttpConnection& c) { c.on_wake(); });
}

/// False where it threw.
template <class F>
bool HttpServer::Impl::guarded(F act) {
  try {
    act();
    return true;
  } catch (const std::exception& e) {  // the edge: what fails for one connection (memory) must not end the others
    log.error("serving a connection: {}", e.what());
    return false;
  }
}

/// Lets a connection act, and forgets it where it has closed. A key without a connection is old news.
template <class F>
void HttpServer::Impl::with_connection(uint64_t key, F act) {
  const auto found = connections.find(key);
  if (found == connections.end()) return;
  const bool done = guarded([&] { act(*found->second); });
  if (!done || found->second->closed()) connections.erase(found);
  stats.connections = int64_t(connections.size());
}

void HttpServer::Impl::accept_all() {
  for (int i = 0; i < kAcceptsAnEvent && listener; ++i) {
    Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      admit(std::move(socket));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      if (errno != EAGAIN) pause_accepting();
      return;
    }
  }
}

void HttpServer::Impl::admit(Socket socket) {
  ++stats.accepted;
  const auto serving = size_t(std::ranges::count_if(connections, [](const auto& c) { return c.second->serving(); }));
  const bool full = serving >= options.max_connections;
  stats.refused += full;
  if (connections.size() >= options.max_connections + kMaxBeingRefused) return;
  const uint64_t key = next_key++;
  guarded([&] { connections.emplace(key, std::make_unique<HttpConnection>(host, std::move(socket), key)); });
  with_connection(key, [&](HttpConnection& connection) {
    if (full) connection.refuse(503, "this server has as many connections as it takes; try again later");
  });
}

/// The process has no descriptors left. The listener would be reported without end; it rests until the next tick.
void HttpServer::Impl::pause_accepting() {
  log.warn("accepting a connection: {}; raise the limit of open files (`ulimit -n`)", std::strerror(errno));
  poller.remove(listener);
  accepting = false;
}

void HttpServer::Impl::on_tick(double now) {
  next_tick = now + kTickS;
  std::vector<uint64_t> keys;
  keys.reserve(connections.size());
  for (const auto& [key, connection] : connections) keys.push_back(key);
  for (const uint64_t key : keys) with_connection(key, [&](HttpConnection& c) { c.on_time(now); });
  if (accepting || !listener) return;
  poller.add(listener, EPOLLIN, kListenerKey);
  accepting = true;
}

void HttpServer::Impl::begin_draining() {
  if (!listener) return;
  if (accepting) poller.remove(listener);
  listener.close();
  for (const auto& [key, connection] : connections) connection->drain();
}

bool HttpServer::Impl::anyone_busy() const {
  return std::ranges::any_of(connections, [](const auto& entry) { return entry.second->busy(); });
}

void HttpServer::Impl::stop() {
  stopping = true;
  wake->push(kWakeKey);
  if (thread.joinable()) thread.join();
}

HttpServer::HttpServer(HttpServerOptions options, HttpHandler handler, Log& log)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler), log)) {}

HttpServer::~HttpServer() { impl_->stop(); }

int HttpServer::port() const { return impl_->port; }

std::string HttpServer::url() const { return fmt::format("http://{}:{}", shown_host(impl_->options.host), port()); }

const HttpServerStats& HttpServer::stats() const { return impl_->stats; }

bool HttpServer::drain(double seconds) {
  impl_->draining = true;
  impl_->wake->push(kWakeKey);
  bool all = false;
  {
    std::unique_lock lock(impl_->mutex);
    all = impl_->drained.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return impl_->is_drained; });
  }
  impl_->stop();
  return all;
}

}  // namespace espalier
