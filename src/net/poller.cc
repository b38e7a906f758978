#include "net/poller.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/error.h"

namespace espalier {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw errno_error("making an epoll descriptor");
}

void Poller::control(int operation, const Socket& socket, uint32_t events, uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll_.fd(), operation, socket.fd(), &event) != 0) throw errno_error("watching a socket");
}

void Poller::add(const Socket& socket, uint32_t events, uint64_t key) { control(EPOLL_CTL_ADD, socket, events, key); }

void Poller::change(const Socket& socket, uint32_t events, uint64_t key) {
  control(EPOLL_CTL_MOD, socket, events, key);
}

void Poller::remove(const Socket& socket) { control(EPOLL_CTL_DEL, socket, 0, 0); }

std::span<const Poller::Event> Poller::wait(double seconds) {
  const int timeout_ms = seconds < 0 ? -1 : int(std::min(std::ceil(seconds * 1e3), 1e9));
  const int count = ::epoll_wait(epoll_.fd(), raw_.data(), int(raw_.size()), timeout_ms);
  if (count < 0 && errno != EINTR) throw errno_error("waiting for sockets");
  events_.clear();
  for (int i = 0; i < count; ++i) events_.push_back({raw_[size_t(i)].data.u64, raw_[size_t(i)].events});
  return events_;
}

WakeQueue::WakeQueue() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw errno_error("making an event descriptor");
}

void WakeQueue::push(uint64_t key) {
  const std::lock_guard lock(mutex_);
  keys_.push_back(key);
  // One signal wakes for all keys. It cannot fail: the counter is reset before it could overflow.
  const uint64_t one = 1;
  if (keys_.size() == 1) [[maybe_unused]] const ssize_t written = ::write(event_.fd(), &one, sizeof one);
}

std::vector<uint64_t> WakeQueue::take() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event_.fd(), &count, sizeof count);
  return std::exchange(keys_, {});
}

}  // namespace espalier
