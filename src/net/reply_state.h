// What lies between an HttpReply (any thread) and its HttpConnection (the server's thread): a response and the bytes of
// its body, handed over under a lock and announced through the server's wake queue.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_message.h"
#include "net/poller.h"

namespace espalier {

class ReplyState {
 public:
  /// `key` is what the wake queue is told; more than max_unsent bytes of a streamed body may not wait.
  ReplyState(std::shared_ptr<WakeQueue> wake, uint64_t key, size_t max_unsent);

  // As HttpReply describes them.
  void send(HttpResponse response);
  void start(HttpResponse head, std::string heartbeat);
  bool write(std::string_view piece);
  void finish();
  void abort();
  bool started() const;
  bool cancelled() const;
  void on_cancelled(std::function<void()> callback);
  size_t unsent_bytes() const;

  /// What came since the last call.
  struct News {
    std::optional<HttpResponse> head;  ///< the first time
    bool streamed = false;             ///< with head: the body comes in pieces
    std::string heartbeat;             ///< with head
    std::string bytes;                 ///< of a streamed body
    bool finished = false;
    bool aborted = false;  ///< the connection must be cut
    bool too_slow = false;  ///< because more waited than may
  };
  News take();
  /// How many bytes the connection holds that the system has not taken.
  void set_held(size_t bytes);
  /// The client is gone.
  void cancel();

 private:
  enum class Phase { kWaiting, kStreaming, kFinished };
  void announce();  // under the lock

  const std::shared_ptr<WakeQueue> wake_;
  const uint64_t key_;
  const size_t max_unsent_;

  mutable std::mutex mutex_;
  Phase phase_ = Phase::kWaiting;
  bool cancelled_ = false, announced_ = false;
  size_t held_ = 0;
  std::function<void()> callback_;
  News news_;
};

}  // namespace espalier
