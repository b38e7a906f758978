#include "net/http_reply.h"

#include <utility>

#include "base/check.h"
#include "net/reply_state.h"

namespace espalier {

ReplyState::ReplyState(std::shared_ptr<WakeQueue> wake, uint64_t key, size_t max_unsent)
    : wake_(std::move(wake)), key_(key), max_unsent_(max_unsent) {}

void ReplyState::announce() {
  if (!std::exchange(announced_, true)) wake_->push(key_);
}

void ReplyState::send(HttpResponse response) {
  std::function<void()> released;  // destroyed without the lock: it may own copies of the reply
  const std::lock_guard lock(mutex_);
  ESP_CHECK(phase_ == Phase::kWaiting, "a reply was sent twice");
  phase_ = Phase::kFinished;
  released.swap(callback_);
  if (cancelled_) return;
  news_.head = std::move(response);
  news_.finished = true;
  announce();
}

void ReplyState::start(HttpResponse head, std::string heartbeat) {
  const std::lock_guard lock(mutex_);
  ESP_CHECK(phase_ == Phase::kWaiting, "a reply was started twice");
  phase_ = Phase::kStreaming;
  if (cancelled_) return;
  news_.bytes = std::move(head.body);
  news_.head = std::move(head);
  news_.streamed = true;
  news_.heartbeat = std::move(heartbeat);
  announce();
}

bool ReplyState::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  ESP_CHECK(phase_ == Phase::kStreaming, "a piece was written to a reply that is not being streamed");
  if (cancelled_ || news_.aborted) return false;
  if (news_.bytes.size() + held_ + piece.size() > max_unsent_) {
    news_.aborted = news_.too_slow = true;
    announce();
    return false;
  }
  news_.bytes.append(piece);
  announce();
  return true;
}

void ReplyState::finish() {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  ESP_CHECK(phase_ == Phase::kStreaming, "a reply was finished that is not being streamed");
  phase_ = Phase::kFinished;
  released.swap(callback_);
  if (cancelled_) return;
  news_.finished = true;
  announce();
}

void ReplyState::abort() {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kFinished || cancelled_) return;
  const bool began = std::exchange(phase_, Phase::kFinished) == Phase::kStreaming;
  released.swap(callback_);
  if (!began) news_.head = text_response(500, "The request was given up.\n");
  news_.finished = !began;
  news_.aborted = began;
  announce();
}

bool ReplyState::started() const {
  const std::lock_guard lock(mutex_);
  return phase_ != Phase::kWaiting;
}

bool ReplyState::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void ReplyState::on_cancelled(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) {
      if (phase_ != Phase::kFinished) callback_.swap(callback);
      return;
    }
  }
  callback();
}

size_t ReplyState::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return news_.bytes.size() + held_;
}

ReplyState::News ReplyState::take() {
  const std::lock_guard lock(mutex_);
  announced_ = false;
  News news = std::exchange(news_, {});
  held_ += news.bytes.size();
  return news;
}

void ReplyState::set_held(size_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ = bytes;
}

void ReplyState::cancel() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kFinished || cancelled_) return;
    cancelled_ = true;
    news_ = {};
    callback.swap(callback_);
  }
  if (callback) callback();
}

HttpReply::HttpReply(std::shared_ptr<ReplyState> state)
    : state_(state.get(), [state](ReplyState*) { state->abort(); }) {}

void HttpReply::send(HttpResponse response) { state_->send(std::move(response)); }
void HttpReply::start(HttpResponse head, std::string heartbeat) {
  state_->start(std::move(head), std::move(heartbeat));
}
bool HttpReply::write(std::string_view piece) { return state_->write(piece); }
void HttpReply::finish() { state_->finish(); }
void HttpReply::abort() { state_->abort(); }
bool HttpReply::started() const { return state_->started(); }
bool HttpReply::cancelled() const { return state_->cancelled(); }
void HttpReply::on_cancelled(std::function<void()> callback) { state_->on_cancelled(std::move(callback)); }
size_t HttpReply::unsent_bytes() const { return state_->unsent_bytes(); }

}  // namespace espalier
