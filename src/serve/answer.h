// One HTTP request's answer while it is being written: its choices, streamed as events or collected, in the words of
// the chat or of the completion API.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "net/http_reply.h"
#include "serve/openai_reply.h"
#include "serve/scheduler.h"
#include "serve/think_splitter.h"
#include "serve/tool_calls.h"

namespace espalier {

struct AnswerOptions {
  bool chat = true;    ///< chat.completion, otherwise text_completion
  bool stream = false, include_usage = false;
  std::optional<int64_t> top_logprobs;
  std::optional<ToolReading> tools;  ///< tool calls are looked for
  bool thinking = false;             ///< the prompt opened the reasoning
  std::string echo;                 ///< what comes before each text
  size_t choices_a_prompt = SIZE_MAX;  ///< choices of one prompt follow each other
  HttpHeaders headers = {};         ///< of the response, beside its own
};

/// Lives as long as some of its jobs or its reply does.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  /// `tokenizer` is copied; `finished` is called with the answer's numbers once it is complete.
  Answer(HttpReply reply, ReplyWriter writer, AnswerOptions options, Tokenizer tokenizer, size_t choices);

  /// Submits the requests, one a choice. What submit() throws is thrown, with what was taken before cancelled.
  void begin(Scheduler& scheduler, std::vector<GenerateRequest> requests);

 private:
  struct Choice {
    ThinkSplitter think;
    std::optional<ToolCallSplitter> tools;
    std::vector<TokenScore> scores, unsent_scores;
    ChatAnswer chat;
    std::string text;
    int64_t sent_chars = 0, calls = 0;
    bool opened = false;  // its role was sent
    GenerateResult result;
  };
  Job job_for(size_t index, GenerateRequest request);
  bool take(size_t index, std::string_view text);
  void take_text(Choice& choice, size_t index, std::string_view text, bool last);
  ChatDelta split(Choice& choice, std::string_view text, bool last);
  void end(size_t index, GenerateResult result);
  void complete();
  void fail(const std::exception_ptr& failure);
  void send_event(const std::string& json);
  void start_stream();
  HttpResponse with_headers(HttpResponse response) const;
  Usage usage() const;
  Timings timings() const;
  void add_score(size_t index, const Logprobs& logprobs);

  HttpReply reply_;
  ReplyWriter writer_;
  AnswerOptions options_;
  Tokenizer tokenizer_;
  std::mutex mutex_;  // choices of one answer end in the scheduler's thread; failures may come while they are submitted
  std::vector<Choice> choices_;
  size_t open_ = 0;
  bool failed_ = false;
};

}  // namespace espalier
