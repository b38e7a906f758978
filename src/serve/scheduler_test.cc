#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <future>

#include "base/error.h"
#include "models/golden_model.h"

namespace espalier {
namespace {

GenerateRequest request_of(uint64_t number, int64_t max_tokens) {
  GenerateRequest r;
  r.prompt = {int32_t(1 + number % 50), 4, int32_t(7 + number % 11)};
  r.max_tokens = max_tokens;
  r.sampler = {.temperature = 1, .seed = int64_t(number)};
  r.ignore_eos = true;
  return r;
}

/// A job whose end can be waited for.
struct Waited {
  Job job;
  std::future<GenerateResult> end;

  explicit Waited(GenerateRequest request) {
    auto promise = std::make_shared<std::promise<GenerateResult>>();
    end = promise->get_future();
    job.request = std::move(request);
    job.on_done = [promise](GenerateResult result) { promise->set_value(std::move(result)); };
    job.on_failure = [promise](std::exception_ptr failure) { promise->set_exception(failure); };
  }
};

class SchedulerThreads : public testing::Test {
 protected:
  GoldenModel golden{"llama2", choose_isa()};
};

TEST_F(SchedulerThreads, ManyThreadsGetTheirOwnTexts) {
  Scheduler scheduler(golden.ctx, *golden.model, nullptr, {.generator = {.max_batch = 4}});
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> texts(24);
  for (size_t i = 0; i < texts.size(); ++i)
    threads.push_back(start_thread([&, i] {
      Waited waited(request_of(i, 12));
      scheduler.submit(std::move(waited.job));
      texts[i] = waited.end.get().ids;
    }));
  for (std::thread& thread : threads) thread.join();
  for (const auto& text : texts) EXPECT_EQ(text.size(), 12u);
  // A seed gives its text, whoever else is there and however many came before.
  Waited first(request_of(3, 9)), second(request_of(3, 9));
  scheduler.submit(std::move(first.job));
  scheduler.submit(std::move(second.job));
  const std::vector<int32_t> text = first.end.get().ids;
  EXPECT_EQ(text, second.end.get().ids);
  EXPECT_EQ(text, std::vector<int32_t>(texts[3].begin(), texts[3].begin() + 9));
  const SchedulerCounters counters = scheduler.counters();
  EXPECT_EQ(counters.finished, 26);
  EXPECT_EQ(counters.waiting + counters.running, 0);
  EXPECT_EQ(counters.generated_tokens, 24 * 12 + 18);
}

TEST_F(SchedulerThreads, ACancelledRequestEndsAndLeavesTheOthers) {
  Scheduler scheduler(golden.ctx, *golden.model, nullptr, {.generator = {.max_batch = 1}});
  Waited running(request_of(1, 50)), waiting(request_of(2, 5)), last(request_of(3, 5));
  std::promise<void> began;
  running.job.request.on_token = [&, told = false](int32_t, std::string_view) mutable {
    if (!std::exchange(told, true)) began.set_value();
    return true;
  };
  const uint64_t first = scheduler.submit(std::move(running.job));
  began.get_future().wait();
  const uint64_t second = scheduler.submit(std::move(waiting.job));
  scheduler.submit(std::move(last.job));
  scheduler.cancel(second);
  scheduler.cancel(first);
  EXPECT_EQ(waiting.end.get().finish_reason, FinishReason::kCancelled);
  const FinishReason reason = running.end.get().finish_reason;
  EXPECT_TRUE(reason == FinishReason::kCancelled || reason == FinishReason::kLength);
  EXPECT_EQ(last.end.get().ids.size(), 5u);
}

TEST_F(SchedulerThreads, AFullQueueAndABadRequestAreRefused) {
  Scheduler scheduler(golden.ctx, *golden.model, nullptr, {.generator = {.max_batch = 1}, .max_waiting = 2});
  std::promise<void> go;
  const std::shared_future<void> open = go.get_future().share();
  std::promise<void> began;
  Waited holding(request_of(1, 2));
  holding.job.request.on_token = [&, told = false](int32_t, std::string_view) mutable {
    if (!std::exchange(told, true)) began.set_value();
    open.wait();
    return true;
  };
  scheduler.submit(std::move(holding.job));
  began.get_future().wait();
  scheduler.submit({.request = request_of(2, 2)});
  scheduler.submit({.request = request_of(3, 2)});
  try {
    scheduler.submit({.request = request_of(4, 2)});
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBusy);
  }
  EXPECT_THROW(scheduler.submit({.request = request_of(4, 0)}), Error);
  go.set_value();
  EXPECT_TRUE(scheduler.drain(60));
  EXPECT_THROW(scheduler.submit({.request = request_of(5, 2)}), Error);
  EXPECT_EQ(scheduler.counters().finished, 3);
}

TEST_F(SchedulerThreads, StoppingTellsWhoWaits) {
  Waited first(request_of(1, 40)), second(request_of(2, 40));
  {
    Scheduler scheduler(golden.ctx, *golden.model, nullptr, {.generator = {.max_batch = 1}});
    scheduler.submit(std::move(first.job));
    scheduler.submit(std::move(second.job));
  }
  for (Waited* waited : {&first, &second}) {
    try {
      EXPECT_EQ(waited->end.get().ids.size(), 40u);  // it was done before the end
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInterrupted);
    }
  }
}

}  // namespace
}  // namespace espalier
