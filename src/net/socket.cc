#include "net/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/error.h"

namespace espalier {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, bool passive, Code code) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0)
    throw error(code, "looking up the host '{}': {}; give an address such as 127.0.0.1", host, ::gai_strerror(status));
  return {found, &::freeaddrinfo};
}

void set_option(const Socket& socket, int level, int name, int value) {
  // A missing option costs comfort, not correctness.
  [[maybe_unused]] const int status = ::setsockopt(socket.fd(), level, name, &value, sizeof value);
}

Socket open_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

Error listen_error(const std::string& host, int port, int number) {
  const std::string attempt = fmt::format("listening on {}:{}: ", host, port);
  if (number == EADDRINUSE)
    return error(Code::kUsage, "{}the port is taken; stop the program that has it (`ss -ltnp 'sport = :{}'` shows it) "
                 "or choose another port (0 takes any free one)", attempt, port);
  if (number == EACCES)
    return error(Code::kUsage, "{}permission denied; ports below 1024 are root's, choose a higher one", attempt);
  if (number == EADDRNOTAVAIL)
    return error(Code::kUsage, "{}this machine does not have that address; 127.0.0.1 serves this machine alone, "
                 "0.0.0.0 the network", attempt);
  return error(Code::kIo, "{}{}", attempt, std::strerror(number));
}

/// 0, or the errno of the failure.
int finish_connecting(const Socket& socket, const addrinfo& address, double deadline) {
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_ready(socket.fd(), POLLOUT, deadline)) return ETIMEDOUT;
  int number = 0;
  socklen_t size = sizeof number;
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket listen_tcp(const std::string& host, int port, int backlog) {
  if (port < 0 || port > 65535) throw error(Code::kUsage, "listening on port {}: expected 0 to 65535", port);
  const Addresses addresses = resolve(host, port, true, Code::kUsage);
  int number = EADDRNOTAVAIL;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    Socket socket = open_socket(*address);
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (socket && ::bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::listen(socket.fd(), backlog) == 0)
      return socket;
    number = errno;
  }
  throw listen_error(host, port, number);
}

int local_port(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw errno_error("asking a socket for its port");
  const bool six = address.ss_family == AF_INET6;
  return ntohs(six ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Socket connect_tcp(const std::string& host, int port, double deadline) {
  const Addresses addresses = resolve(host, port, false, Code::kPeer);
  int number = 0;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    Socket socket = open_socket(*address);
    number = socket ? finish_connecting(socket, *address, deadline) : errno;
    if (number == 0) {
      tune_tcp(socket);
      return socket;
    }
  }
  if (number == ETIMEDOUT) throw error(Code::kTimeout, "connecting to {}:{}: no answer in time", host, port);
  throw error(Code::kPeer, "connecting to {}:{}: {}; is the server running there?", host, port,
              std::strerror(number));
}

void tune_tcp(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool wait_ready(int fd, short events, double deadline) {
  for (;;) {
    // Rounded up, so that a wait never ends just short of its deadline and spins.
    const double left_ms = std::clamp(std::ceil((deadline - now_s()) * 1e3), 0.0, 1e9);
    pollfd wanted{fd, events, 0};
    const int ready = ::poll(&wanted, 1, int(left_ms));
    if (ready > 0) return true;
    if (ready == 0 && now_s() >= deadline) return false;
    if (ready < 0 && errno != EINTR) throw errno_error("waiting for a socket");
  }
}

}  // namespace espalier
