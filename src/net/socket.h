// Sockets: a file descriptor with an owner, and TCP listening and connecting with errors that say what to do. All
// sockets made here are non-blocking; whoever wants to wait does so with wait_ready and a deadline.
#pragma once
#include <string>
#include <utility>

namespace espalier {

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// A listening socket on host:port (a name or an address; port 0 takes a free one) with SO_REUSEADDR. Throws Error
/// kUsage where the port is taken, the address is not this machine's, or the name is unknown.
Socket listen_tcp(const std::string& host, int port, int backlog);

/// The port that a socket is bound to.
int local_port(const Socket& socket);

/// Connects until `deadline` (now_s). Throws Error kPeer where nobody answers or the name is unknown, kTimeout.
Socket connect_tcp(const std::string& host, int port, double deadline);

/// Small writes leave at once (TCP_NODELAY), and a peer whose machine is gone is noticed within a minute.
void tune_tcp(const Socket& socket);

/// Waits until one of poll(2)'s `events` or an error is there; false at the deadline (now_s).
bool wait_ready(int fd, short events, double deadline);

}  // namespace espalier
