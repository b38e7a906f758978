// Waiting for many sockets at once (epoll), and a queue through which other threads wake the one that waits.
#pragma once
#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "net/socket.h"

namespace espalier {

/// Level-triggered epoll. Events carry keys that the caller never uses twice: what is reported of a socket closed
/// meanwhile then meets nobody.
class Poller {
 public:
  struct Event {
    uint64_t key;
    uint32_t events;  ///< EPOLLIN, ...
  };

  Poller();
  void add(const Socket& socket, uint32_t events, uint64_t key);
  void change(const Socket& socket, uint32_t events, uint64_t key);
  void remove(const Socket& socket);
  /// Waits at most `seconds` (for ever where negative). What is returned is valid until the next call.
  std::span<const Event> wait(double seconds);

 private:
  void control(int operation, const Socket& socket, uint32_t events, uint64_t key);

  Socket epoll_;
  std::array<epoll_event, 256> raw_;
  std::vector<Event> events_;
};

/// Keys pushed by any thread, taken by the one that polls fd().
class WakeQueue {
 public:
  WakeQueue();
  /// A key may be pushed again before it was taken; it then comes twice.
  void push(uint64_t key);
  std::vector<uint64_t> take();
  const Socket& socket() const { return event_; }

 private:
  Socket event_;
  std::mutex mutex_;
  std::vector<uint64_t> keys_;
};

}  // namespace espalier
