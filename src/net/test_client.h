// For the tests of this folder: a client that sends any bytes and behaves as badly as it is told, a signal between
// threads, and the message of an expected Error.
#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/socket.h"

namespace espalier {

/// Long enough for any machine that is not broken: nothing is measured by it, it only ends a test that hangs.
constexpr double kTestPatienceS = 60;

class RawClient {
 public:
  explicit RawClient(int port) : socket_(connect_tcp("127.0.0.1", port, now_s() + kTestPatienceS)) {}

  /// False where the server has hung up.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(size_t(n));
      else if (errno != EAGAIN) return false;
      else wait_ready(socket_.fd(), POLLOUT, now_s() + kTestPatienceS);
    }
    return true;
  }

  /// Reads until `end` has come and returns all up to it; what follows is kept. Less where the connection ends.
  std::string read_until(std::string_view end) {
    while (received_.find(end) == std::string::npos && receive()) {
    }
    const size_t found = received_.find(end);
    return take(found == std::string::npos ? received_.size() : found + end.size());
  }

  /// A response with a Content-Length, whole.
  std::string read_response() {
    std::string response = read_until("\r\n\r\n");
    const size_t field = response.find("Content-Length: ");
    if (field == std::string::npos) return response;
    const size_t length = std::stoul(response.substr(field + 16));
    while (received_.size() < length && receive()) {
    }
    return response + take(length);
  }

  /// Everything until the server closes.
  std::string read_to_end() {
    while (receive()) {
    }
    return take(received_.size());
  }

  /// Whether the connection ended with a reset rather than in order; after read_to_end.
  bool was_reset() const { return was_reset_; }
  void close_sending_half() { ::shutdown(socket_.fd(), SHUT_WR); }
  void close() { socket_.close(); }

 private:
  bool receive() {
    char buffer[4096];
    if (!wait_ready(socket_.fd(), POLLIN, now_s() + kTestPatienceS)) {
      ADD_FAILURE() << "the server said nothing more after: " << received_;
      return false;
    }
    const ssize_t n = ::recv(socket_.fd(), buffer, sizeof buffer, 0);
    was_reset_ = n < 0;
    if (n > 0) received_.append(buffer, size_t(n));
    return n > 0;
  }

  std::string take(size_t bytes) {
    bytes = std::min(bytes, received_.size());
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }

  Socket socket_;
  std::string received_;
  bool was_reset_ = false;
};

/// Given by one thread, awaited by another.
class Signal {
 public:
  void give() {
    const std::lock_guard lock(mutex_);
    given_ = true;
    changed_.notify_all();
  }
  /// False where it did not come.
  bool await() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(kTestPatienceS), [&] { return given_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
};

/// Waits until the condition holds; false where it does not come to it.
inline bool eventually(const std::function<bool()>& condition) {
  const double deadline = now_s() + kTestPatienceS;
  while (!condition()) {
    if (now_s() > deadline) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

template <class F>
std::string error_message(F&& act) {
  try {
    act();
  } catch (const Error& e) {  // the edge: the test wants it
    return e.what();
  }
  return "no error";
}

}  // namespace espalier
