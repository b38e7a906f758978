#include "serve/answer.h"

#include <utility>

#include "net/sse.h"
#include "serve/api_error.h"
#include "text/utf8.h"

namespace espalier {
namespace {

AnswerEnd end_of(FinishReason reason, bool called) {
  if (called) return AnswerEnd::kToolCalls;
  // A text that its grammar could not end is cut off, and no client should take it for whole.
  const bool cut = reason == FinishReason::kLength || reason == FinishReason::kContext ||
                   reason == FinishReason::kGrammar;
  return cut ? AnswerEnd::kLength : AnswerEnd::kStop;
}

int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; });
}

}  // namespace

Answer::Answer(HttpReply reply, ReplyWriter writer, AnswerOptions options, Tokenizer tokenizer, size_t choices)
    : reply_(std::move(reply)), writer_(std::move(writer)), options_(std::move(options)),
      tokenizer_(std::move(tokenizer)), open_(choices) {
  for (size_t i = 0; i < choices; ++i) {
    Choice& choice = choices_.emplace_back();
    choice.think = ThinkSplitter(options_.thinking);
    if (options_.tools) choice.tools.emplace(options_.tools->format, options_.tools->names);
  }
}

void Answer::begin(Scheduler& scheduler, std::vector<GenerateRequest> requests) {
  std::vector<uint64_t> numbers;
  try {
    for (size_t i = 0; i < requests.size(); ++i)
      numbers.push_back(scheduler.submit(job_for(i, std::move(requests[i]))));
  } catch (...) {  // passed on: a choice that does not fit takes the others with it, the request's edge answers
    {
      std::lock_guard lock(mutex_);
      failed_ = true;
    }
    for (const uint64_t number : numbers) scheduler.cancel(number);
    throw;
  }
  reply_.on_cancelled([&scheduler, numbers] {
    for (const uint64_t number : numbers) scheduler.cancel(number);
  });
}

Job Answer::job_for(size_t index, GenerateRequest request) {
  const auto self = shared_from_this();
  request.on_token = [self, index](int32_t, std::string_view text) { return self->take(index, text); };
  if (options_.top_logprobs) {
    request.top_logprobs = *options_.top_logprobs;
    request.on_logprobs = [self, index](const Logprobs& found) { self->add_score(index, found); };
  }
  return {std::move(request), [self, index](GenerateResult result) { self->end(index, std::move(result)); },
          [self](std::exception_ptr failure) { self->fail(failure); }};
}

bool Answer::take(size_t index, std::string_view text) {
  std::lock_guard lock(mutex_);
  if (failed_ || reply_.cancelled()) return false;
  Choice& choice = choices_[index];
  take_text(choice, index, text, false);
  return !(options_.tools && options_.tools->one && choice.calls > 0);
}

ChatDelta Answer::split(Choice& choice, std::string_view text, bool last) {
  ChatDelta delta;
  const auto take_piece = [&](const ToolPiece& piece) {
    delta.content += piece.content;
    for (const FoundCall& call : piece.calls)
      if (!options_.tools->one || choice.calls + int64_t(delta.calls.size()) == 0)
        delta.calls.push_back({"", call.name, call.arguments});
  };
  const auto take_content = [&](const std::string& content) {
    if (choice.tools) take_piece(choice.tools->push(content));
    else delta.content += content;
  };
  const ThinkPiece piece = choice.think.push(text);
  delta.reasoning = piece.reasoning;
  take_content(piece.content);
  if (!last) return delta;
  const ThinkPiece rest = choice.think.finish();
  delta.reasoning += rest.reasoning;
  take_content(rest.content);
  if (choice.tools) take_piece(choice.tools->finish());
  return delta;
}

// What a token set free, into the answer, and to the client where it reads along.
void Answer::take_text(Choice& choice, size_t index, std::string_view text, bool last) {
  const std::vector<TokenScore>* scores = choice.unsent_scores.empty() ? nullptr : &choice.unsent_scores;
  if (!options_.chat) {
    choice.text += text;
    if (options_.stream && !std::exchange(choice.opened, true) && !options_.echo.empty()) {
      choice.sent_chars = characters(options_.echo);
      send_event(writer_.text_delta(int64_t(index), {.text = options_.echo, .finish = {}, .scores = {}}));
    }
    if (options_.stream && (!text.empty() || scores)) {
      TextAnswer part{.text = std::string(text), .finish = std::nullopt, .scores = std::nullopt,
                      .text_offset = choice.sent_chars};
      if (scores) part.scores = *scores;
      choice.sent_chars += characters(text);
      send_event(writer_.text_delta(int64_t(index), part));
      choice.unsent_scores.clear();
    }
    return;
  }
  ChatDelta delta = split(choice, text, last);
  for (size_t i = 0; i < delta.calls.size(); ++i)
    delta.calls[i].id = fmt::format("call_{}_{}", index, choice.calls + int64_t(i));
  choice.chat.content += delta.content;
  choice.chat.reasoning += delta.reasoning;
  choice.chat.calls.insert(choice.chat.calls.end(), delta.calls.begin(), delta.calls.end());
  const bool says = !delta.content.empty() || !delta.reasoning.empty() || !delta.calls.empty() || scores;
  if (options_.stream && says) {
    start_stream();
    if (!std::exchange(choice.opened, true)) send_event(writer_.chat_role(int64_t(index)));
    send_event(writer_.chat_delta(int64_t(index), delta, choice.calls, scores));
    choice.unsent_scores.clear();
  }
  choice.calls += int64_t(delta.calls.size());
}

void Answer::end(size_t index, GenerateResult result) {
  std::lock_guard lock(mutex_);
  if (failed_) return;
  Choice& choice = choices_[index];
  choice.result = std::move(result);
  take_text(choice, index, "", true);
  choice.chat.finish = end_of(choice.result.finish_reason, !choice.chat.calls.empty());
  if (options_.stream) {
    start_stream();
    if (options_.chat) {
      if (!std::exchange(choice.opened, true)) send_event(writer_.chat_role(int64_t(index)));
      const Timings times = timings();
      send_event(writer_.chat_finish(int64_t(index), choice.chat.finish, &times));
    } else {
      const TextAnswer part{.text = "", .finish = choice.chat.finish, .scores = std::nullopt, .text_offset = 0};
      send_event(writer_.text_delta(int64_t(index), part));
    }
  }
  if (--open_ == 0) complete();
}

void Answer::complete() {
  const Usage used = usage();
  if (options_.stream) {
    if (options_.include_usage) send_event(options_.chat ? writer_.chat_usage(used) : writer_.text_usage(used));
    send_event(kStreamEnd);
    reply_.finish();
    return;
  }
  const Timings times = timings();
  if (options_.chat) {
    std::vector<ChatAnswer> answers;
    for (Choice& choice : choices_) {
      if (options_.top_logprobs) choice.chat.scores = choice.scores;
      answers.push_back(choice.chat);
    }
    return reply_.send(with_headers(json_response(200, writer_.chat(answers, used, &times))));
  }
  std::vector<TextAnswer> answers;
  for (Choice& choice : choices_) {
    answers.push_back({.text = options_.echo + choice.text, .finish = choice.chat.finish, .scores = std::nullopt,
                       .text_offset = characters(options_.echo)});
    if (options_.top_logprobs) answers.back().scores = choice.scores;
  }
  reply_.send(with_headers(json_response(200, writer_.text(answers, used, &times))));
}

void Answer::fail(const std::exception_ptr& failure) {
  std::lock_guard lock(mutex_);
  if (std::exchange(failed_, true)) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {  // the edge of a request: what failed is its answer
    if (reply_.started())
      reply_.abort();
    else
      reply_.send(with_headers(error_response(e)));
  }
}

HttpResponse Answer::with_headers(HttpResponse response) const {
  for (const HttpHeaders::Field& field : options_.headers) response.headers.set(field.name, field.value);
  return response;
}

void Answer::start_stream() {
  if (!reply_.started())
    reply_.start(with_headers({200, {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}}, ""}),
                 kSseHeartbeat);
}

void Answer::send_event(const std::string& json) {
  start_stream();
  reply_.write(sse_data(json));
}

Usage Answer::usage() const {
  Usage used;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    // Of each prompt once, however many answers it gets.
    if (i % options_.choices_a_prompt == 0) used.prompt_tokens += choice.result.prompt_tokens;
    used.cached_tokens = std::max(used.cached_tokens, choice.result.cached_tokens);
    used.completion_tokens += int64_t(choice.result.ids.size());
    used.accepted_drafts += choice.result.accepted;
    used.rejected_drafts += choice.result.guessed - choice.result.accepted;
  }
  return used;
}

Timings Answer::timings() const {
  Timings times;
  for (const Choice& choice : choices_) {
    times.prompt_tokens = choice.result.prompt_tokens - choice.result.cached_tokens;
    times.generated_tokens += int64_t(choice.result.ids.size());
    times.prompt_ms = std::max(times.prompt_ms, 1e3 * choice.result.prefill_s);
    times.drafted += choice.result.guessed;
    times.drafts_accepted += choice.result.accepted;
    times.generated_ms = std::max(times.generated_ms, 1e3 * choice.result.decode_s);
  }
  return times;
}

void Answer::add_score(size_t index, const Logprobs& found) {
  std::lock_guard lock(mutex_);
  TokenScore score{std::string(tokenizer_.token_bytes(found.chosen.id)), double(found.chosen.logprob), {}};
  for (const TokenLogprob& top : found.top)
    score.top.push_back({std::string(tokenizer_.token_bytes(top.id)), double(top.logprob), {}});
  choices_[index].scores.push_back(score);
  choices_[index].unsent_scores.push_back(std::move(score));
}

}  // namespace espalier
