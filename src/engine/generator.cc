#include "engine/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/text_stream.h"

namespace espalier {
namespace {

constexpr int64_t kWorthWaiting = 32;  // tokens that another request is reading

}  // namespace

struct Generator::Sequence {
  Sequence(const ArchSpec& spec, const GeneratorOptions& options, const Tokenizer* tokenizer, GenerateRequest r,
           size_t number_given)
      : number(number_given), request(std::move(r)), sampler(request.sampler, request.id, tokenizer),
        cache(spec, options.cache_type), tokens(request.prompt) {
    if (tokenizer) stream.emplace(*tokenizer, request.stop);
    if (request.grammar) grammar.emplace(request.grammar);
    for (const LoraUse& use : request.lora) reader += fmt::format("{}*{} ", use.adapter->path(), use.scale);
    result.prompt_tokens = int64_t(tokens.size());
  }

  /// Tokens that no pass has seen yet: the rest of the prompt, then the last one drawn.
  int64_t unread() const { return int64_t(tokens.size()) - cache.length(); }

  size_t number;
  GenerateRequest request;
  Sampler sampler;
  KvCache cache;
  std::optional<TextStream> stream;
  std::optional<GrammarMatcher> grammar;
  std::vector<float> masked;  // logits under the grammar
  Logprobs logprobs;          // of the token that was drawn last, where they are asked for
  std::vector<int32_t> tokens;  // prompt, then what was drawn
  std::string reader;           // the model and its adapters, for the cache
  GenerateResult result;
  // While another request reads a prompt that begins alike, the request of that number is waited for until it has read
  // so many tokens.
  std::optional<size_t> leader;
  int64_t awaited = 0;
  int64_t wanted = 0;  // tokens that are to be read until it, or who waits for it, can go on
  bool slid = false;  // tokens were dropped in front of those that are in the cache
  double started = -1, first_token = 0;
  bool finished = false;
};

struct Generator::Plan {
  struct Pick {
    Sequence* sequence;
    int64_t row;  // the row whose logits continue the sequence
  };
  std::vector<int32_t> ids, positions;
  std::vector<CacheSegment> segments;
  std::vector<LoraRows> adapted;
  std::vector<Pick> picks;
  // Of a pass that verifies: rows are the last token and the guesses, picks all of them.
  Draft draft;
  std::vector<int32_t> path_rows, path_lengths;
  KeyPaths paths;
  double seconds = 0;

  void add_adapters(const Sequence& s, int64_t begin, int64_t count) {
    for (const LoraUse& use : s.request.lora) adapted.push_back({use.adapter.get(), use.scale, begin, count});
  }

  /// The last token of the sequence and a tree of guesses.
  void add_tree(Sequence& s, Draft guesses) {
    draft = std::move(guesses);
    const int32_t begin = int32_t(s.cache.length());
    const int64_t count = draft.size() + 1;
    s.cache.reserve(begin + count);
    std::vector<std::vector<int32_t>> lines(size_t(count), {begin});  // cache rows from the last token on
    for (size_t i = 1; i < size_t(count); ++i) {
      lines[i] = lines[size_t(draft.parents[i - 1] + 1)];
      lines[i].push_back(begin + int32_t(i));
      paths.stride = std::max(paths.stride, int64_t(lines[i].size()));
    }
    paths.stride = std::max<int64_t>(paths.stride, 1);
    path_rows.resize(size_t(count * paths.stride));
    for (size_t i = 0; i < size_t(count); ++i) {
      std::ranges::copy(lines[i], path_rows.begin() + int64_t(i) * paths.stride);
      path_lengths.push_back(int32_t(lines[i].size()));
      ids.push_back(i == 0 ? s.tokens.back() : draft.tokens[i - 1]);
      positions.push_back(begin + path_lengths.back() - 1);
      picks.push_back({&s, int64_t(i)});
    }
    paths = {begin, paths.stride, path_rows.data(), path_lengths.data()};
    segments.push_back({&s.cache, 0, count, &paths});
    add_adapters(s, 0, count);
  }

  void add(Sequence& s, int64_t count) {
    const int64_t begin = int64_t(ids.size()), from = s.cache.length();
    s.cache.reserve(from + count);
    for (int64_t p = from; p < from + count; ++p) {
      ids.push_back(s.tokens[size_t(p)]);
      positions.push_back(int32_t(p));
    }
    segments.push_back({&s.cache, begin, count});
    add_adapters(s, begin, count);
    if (from + count == int64_t(s.tokens.size())) picks.push_back({&s, begin + count - 1});
  }
};

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kGrammar:
      return "grammar";
  }
  return "";
}

Generator::Generator(Context& ctx, Decoder& model, const Tokenizer* tokenizer, const GeneratorOptions& options)
    : ctx_(ctx), model_(model), tokenizer_(tokenizer), options_(options), speculation_(options.speculation),
      logits_(DType::kF32, {std::max(options.max_batch, speculation_.most() + 1), model.spec().vocab}),
      remembered_({.texts = options.remember}) {
  ESP_CHECK(options.max_batch > 0 && options.prefill_rows > 0, "batch {}, prefill {}", options.max_batch,
            options.prefill_rows);
}

Generator::~Generator() = default;

void Generator::check(const GenerateRequest& r) const {
  const ArchSpec& spec = model_.spec();
  if (r.prompt.empty()) throw Error(Code::kUsage, "generating: the prompt is empty; give at least one token");
  if (r.max_tokens < 1) throw error(Code::kUsage, "generating: max_tokens is {}; expected 1 or more", r.max_tokens);
  if (r.top_logprobs < 0 || r.top_logprobs > kMaxTopLogprobs)
    throw error(Code::kUsage, "generating: top_logprobs is {}; expected 0 to {}", r.top_logprobs, kMaxTopLogprobs);
  if (!r.stop.empty() && !tokenizer_)
    throw Error(Code::kUsage, "generating: stop strings need a tokenizer, and this model has none; use stop ids");
  for (const LoraUse& use : r.lora)
    if (!std::isfinite(use.scale))
      throw error(Code::kUsage, "generating: the scale of the adapter {} is {}; expected a number", use.adapter->path(),
                  use.scale);
  for (const int32_t id : r.prompt)
    if (id < 0 || id >= spec.vocab)
      throw error(Code::kMismatch, "generating: token {} of the prompt is outside the model's vocabulary of {}; is the "
                  "tokenizer another model's?", id, spec.vocab);
  if (int64_t(r.prompt.size()) >= spec.positions)
    throw error(Code::kUsage,
                "generating: the prompt has {} tokens and the model's context is {}, which leaves no room; "
                "shorten the prompt",
                r.prompt.size(), spec.positions);
}

size_t Generator::submit(GenerateRequest request) {
  check(request);
  waiting_.push_back(std::make_unique<Sequence>(model_.spec(), options_, tokenizer_, std::move(request), submitted_));
  return submitted_++;
}

bool Generator::step() {
  admit();
  if (live_.empty()) return false;
  Plan pass;
  plan(pass);
  const Stopwatch watch;
  forward(pass);
  pass.seconds = watch.seconds();
  if (pass.draft.size() > 0)
    walk(pass);
  else
    draw(pass);
  std::erase_if(live_, [&](const std::unique_ptr<Sequence>& s) {
    if (s->finished) retire(*s);
    return s->finished;
  });
  return true;
}

void Generator::cancel(size_t number) {
  for (auto* queue : {&waiting_, &live_})
    std::erase_if(*queue, [&](const std::unique_ptr<Sequence>& s) {
      if (s->number != number) return false;
      finish(*s, FinishReason::kCancelled);
      retire(*s);
      return true;
    });
}

void Generator::forget() {
  waiting_.clear();
  live_.clear();
  finished_.clear();
  remembered_.clear();
}

void Generator::retire(Sequence& s) {
  finished_[s.number] = std::move(s.result);
  remembered_.add(std::move(s.tokens), std::move(s.reader), std::move(s.cache));
}

// A prompt that begins as a remembered text or as that of a request which is being answered takes what was read of it,
// and waits for what is just being read. At least one token is left to be read: its logits begin the answer.
void Generator::recall(Sequence& s) {
  const int64_t limit = s.unread() - 1, remembered = remembered_.longest({s.tokens, s.reader}, limit);
  int64_t most = remembered;
  for (const auto& other : live_) {
    if (other.get() == &s || other->reader != s.reader) continue;
    const int64_t common = common_prefix(s.tokens, other->tokens, limit);
    if (common <= most) continue;
    // Little is sooner read than waited for; and only who came before is waited for, so that nobody waits in a ring.
    const bool ready = common <= other->cache.length();
    if (!ready && (common - remembered < kWorthWaiting || other->number > s.number)) continue;
    most = common;
    s.leader = other->number;
  }
  s.awaited = most;
  if (s.leader) return share(s);
  s.result.cached_tokens = remembered_.take({s.tokens, s.reader}, limit, s.cache);
}

// Copies what the leader has read, once that is enough; without it the request goes on by itself.
void Generator::share(Sequence& s) {
  const Sequence* leader = find_live(*s.leader);
  const int64_t common = leader ? common_prefix(s.tokens, leader->tokens, s.awaited) : 0;
  if (common < s.awaited) {
    s.leader.reset();
    return recall(s);
  }
  if (leader->cache.length() < s.awaited) return;
  s.cache.copy(leader->cache, s.awaited);
  s.result.cached_tokens = s.awaited;
  s.leader.reset();
}

Generator::Sequence* Generator::find_live(size_t number) {
  const auto found = std::ranges::find_if(live_, [&](const auto& s) { return s->number == number; });
  return found == live_.end() ? nullptr : found->get();
}

void Generator::admit() {
  for (const auto& s : live_)
    if (s->leader) share(*s);
  while (!waiting_.empty() && int64_t(live_.size()) < options_.max_batch) {
    live_.push_back(std::move(waiting_.front()));
    waiting_.erase(waiting_.begin());
    recall(*live_.back());
  }
}

// A row for every sequence that is being continued, and pieces of prompts that are not read to their ends.
void Generator::plan(Plan& pass) {
  if (Sequence& s = *live_[0]; live_.size() == 1 && !s.result.ids.empty() && s.unread() == 1) {
    const int64_t left = s.request.max_tokens - int64_t(s.result.ids.size()) - 1;
    const int64_t room = model_.spec().positions - int64_t(s.tokens.size());
    Draft draft = speculation_.propose(s.tokens, std::min(left, room));
    if (draft.size() > 0) return pass.add_tree(s, std::move(draft));
  }
  std::vector<Sequence*> readers;
  for (const auto& s : live_) {
    if (s->leader) continue;
    if (s->result.ids.empty() || s->unread() > 1)
      readers.push_back(s.get());
    else
      pass.add(*s, 1);
  }
  for (Sequence* reader : readers) reader->wanted = reader->unread();
  for (const auto& s : live_)
    if (Sequence* leader = s->leader ? find_live(*s->leader) : nullptr)
      leader->wanted = std::min(leader->wanted, s->awaited - leader->cache.length());
  plan_prompts(pass, std::move(readers));
}

// The oldest prompt goes on with half of the rows at least, so that none waits for ever; of the others the one with the
// least left until it, or who waits for it, can go on is first: a short question is answered while a long one is read.
void Generator::plan_prompts(Plan& pass, std::vector<Sequence*> readers) {
  int64_t rows = options_.prefill_rows;
  if (readers.size() > 1) std::stable_sort(readers.begin() + 1, readers.end(), [](Sequence* a, Sequence* b) {
      return a->wanted < b->wanted;
    });
  std::vector<int64_t> counts(readers.size());
  for (size_t i = 0; i < readers.size(); ++i) {
    const int64_t share = i == 0 && readers.size() > 1 ? (rows + 1) / 2 : rows;
    counts[i] = std::min(readers[i]->unread(), share);
    rows -= counts[i];
  }
  if (!readers.empty()) counts[0] += std::min(readers[0]->unread() - counts[0], rows);  // what the others left
  for (size_t i = 0; i < readers.size(); ++i) {
    if (counts[i] == 0) continue;
    if (readers[i]->started < 0) readers[i]->started = now_s();
    pass.add(*readers[i], counts[i]);
  }
}

void Generator::forward(const Plan& pass) {
  Tape tape(ctx_, pool_, DType::kF32, TapeMode::kServe);
  const Var hidden = model_.hidden(tape, {.sequences = 1,
                                          .rows = int64_t(pass.ids.size()),
                                          .ids = pass.ids.data(),
                                          .positions = pass.positions.data(),
                                          .segments = pass.segments,
                                          .adapted = pass.adapted});
  for (const CacheSegment& s : pass.segments) s.cache->advance(s.count);
  if (pass.picks.empty()) return;
  const int64_t count = int64_t(pass.picks.size());
  const Var last = tape.make(count, hidden.cols());
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(last.value().row<float>(i), hidden.value().row<float>(pass.picks[size_t(i)].row),
                size_t(hidden.cols()) * sizeof(float));
  model_.logits(tape, last, sub_rows(logits_.mat(), 0, count));
}

void Generator::draw(const Plan& pass) {
  if (pass.ids.size() == 1) speculation_.note(pass.seconds, 0, 0);
  std::vector<int32_t> ids(pass.picks.size());
  for (size_t i = 0; i < ids.size(); ++i)
    if (const Sequence& s = *pass.picks[i].sequence; s.request.on_logits) s.request.on_logits(logits_of(int64_t(i)));
  ctx_.pool.parallel_for(int64_t(ids.size()), [&](int64_t i, int) {
    Sequence& s = *pass.picks[size_t(i)].sequence;
    ids[size_t(i)] = next_token(s, i);
  });
  for (size_t i = 0; i < ids.size(); ++i) {
    accept(*pass.picks[i].sequence, ids[i]);
    forget_what_slid(*pass.picks[i].sequence);
  }
}

// Positions changed, and with them every key: all is read anew.
void Generator::forget_what_slid(Sequence& s) {
  if (std::exchange(s.slid, false)) s.cache.truncate(0);
}

// Draws along the tree. What was drawn becomes a line in the cache.
void Generator::walk(const Plan& pass) {
  Sequence& s = *pass.picks[0].sequence;
  const int64_t begin = pass.paths.shared;
  std::vector<int32_t> rows = {int32_t(begin)};
  for (int32_t at = -1; !s.finished;) {
    const auto logits = logits_of(at + 1);
    if (s.request.on_logits) s.request.on_logits(logits);
    const int32_t id = next_token(s, at + 1);
    accept(s, id);
    int32_t next = at + 1;
    const auto is_next = [&](size_t i) { return pass.draft.parents[i] == at && pass.draft.tokens[i] == id; };
    while (next < pass.draft.size() && !is_next(size_t(next))) ++next;
    if (next == pass.draft.size() || s.finished || s.slid) break;
    rows.push_back(int32_t(begin) + next + 1);
    at = next;
  }
  s.cache.gather(begin, rows);
  forget_what_slid(s);
  s.result.guessed += pass.draft.size();
  s.result.accepted += int64_t(rows.size()) - 1;
  speculation_.note(pass.seconds, pass.draft.size(), int64_t(rows.size()) - 1);
}

std::span<const float> Generator::logits_of(int64_t row) const {
  return {logits_.mat().row<float>(row), size_t(model_.spec().vocab)};
}

namespace {

// Whether the model's own logits leave a token.
bool sound(std::span<const float> logits) {
  const bool numbers = std::ranges::all_of(logits, [](float x) { return x < INFINITY; });  // false for NaN too
  return numbers && std::ranges::any_of(logits, [](float x) { return x > -INFINITY; });
}

}  // namespace

// -1 where grammar and settings of the request leave none.
int32_t Generator::next_token(Sequence& s, int64_t row) {
  const std::span<const float> logits = logits_of(row);
  if (s.grammar && !constrain(s, logits)) return -1;
  const std::span<const float> allowed = s.grammar ? s.masked : logits;
  int32_t id = -1;
  try {
    id = s.sampler.sample(allowed, s.tokens, s.result.ids.size());
  } catch (const Error&) {  // the edge: a request that forbids all that it could say ends, and no other with it
    if (!sound(logits)) throw;
    return -1;
  }
  if (s.request.on_logprobs) s.logprobs = logprobs(logits, id, s.request.top_logprobs);
  return id;
}

// False where no token is left.
bool Generator::constrain(Sequence& s, std::span<const float> logits) const {
  std::vector<int32_t> ends = s.request.stop_ids;
  const ArchSpec& spec = model_.spec();
  if (!s.request.ignore_eos) {
    if (spec.eos) ends.push_back(int32_t(*spec.eos));
    ends.insert(ends.end(), spec.more_eos.begin(), spec.more_eos.end());
    if (tokenizer_ && tokenizer_->eos()) ends.push_back(*tokenizer_->eos());
  }
  s.masked.assign(logits.begin(), logits.end());
  try {
    return s.grammar->mask(s.masked, ends);
  } catch (const Error&) {  // the edge: a grammar that is too ambiguous ends its own request and no other
    return false;
  }
}

bool Generator::follow(Sequence& s, int32_t id) const {
  try {
    return s.grammar->advance_token(id);
  } catch (const Error&) {  // the edge: as above
    return false;
  }
}

void Generator::accept(Sequence& s, int32_t id) {
  if (id < 0) return finish(s, FinishReason::kGrammar);
  s.tokens.push_back(id);
  s.result.ids.push_back(id);
  if (s.result.ids.size() == 1) {
    s.first_token = now_s();
    s.result.prefill_s = s.first_token - s.started;
  }
  std::optional<FinishReason> reason = ending(s, id);
  // The token that ends a text is not part of it.
  const bool silent = reason == FinishReason::kEos || reason == FinishReason::kStop;
  const std::string text = s.stream && !silent ? s.stream->push(id) : "";
  s.result.text += text;
  if (s.grammar && !silent) {
    if (!follow(s, id)) reason = FinishReason::kGrammar;
    else if (s.grammar->must_end()) reason = FinishReason::kStop;
  }
  if (s.stream && s.stream->stopped()) reason = FinishReason::kStop;
  if (s.request.on_logprobs) s.request.on_logprobs(s.logprobs);
  if (s.request.on_token && !s.request.on_token(id, text)) reason = FinishReason::kCancelled;
  if (reason) return finish(s, *reason);
  if (int64_t(s.tokens.size()) >= model_.spec().positions) slide(s);
}

void Generator::slide(Sequence& s) {
  const int64_t size = int64_t(s.tokens.size()), keep = std::min(s.request.keep, size / 2);
  const auto begin = s.tokens.begin() + keep;
  s.tokens.erase(begin, begin + std::max<int64_t>(1, (size - keep) / 2));
  s.slid = true;
}

std::optional<FinishReason> Generator::ending(const Sequence& s, int32_t id) const {
  const auto& ids = s.request.stop_ids;
  if (std::find(ids.begin(), ids.end(), id) != ids.end()) return FinishReason::kStop;
  const bool eos = model_.spec().ends_text(id) || (tokenizer_ && id == tokenizer_->eos());
  if (eos && !s.request.ignore_eos) return FinishReason::kEos;
  if (int64_t(s.result.ids.size()) >= s.request.max_tokens) return FinishReason::kLength;
  if (int64_t(s.tokens.size()) >= model_.spec().positions && !s.request.slide) return FinishReason::kContext;
  return std::nullopt;
}

void Generator::finish(Sequence& s, FinishReason reason) {
  s.finished = true;
  s.result.finish_reason = reason;
  if (!s.result.ids.empty()) s.result.decode_s = now_s() - s.first_token;
  if (!s.stream) return;
  const std::string rest = s.stream->finish();
  s.result.text += rest;
  if (!rest.empty() && reason != FinishReason::kCancelled && s.request.on_token) s.request.on_token(-1, rest);
}

std::optional<GenerateResult> Generator::take(size_t number) {
  auto node = finished_.extract(number);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

std::vector<GenerateResult> Generator::generate(std::vector<GenerateRequest> requests) {
  std::vector<size_t> numbers;
  for (GenerateRequest& request : requests) numbers.push_back(submit(std::move(request)));
  std::vector<GenerateResult> results;
  for (const size_t number : numbers) {
    while (!finished_.contains(number)) ESP_CHECK(step(), "request {} was lost", number);
    results.push_back(*take(number));
  }
  return results;
}

GenerateResult Generator::generate(GenerateRequest request) {
  std::vector<GenerateRequest> requests;
  requests.push_back(std::move(request));
  return std::move(generate(std::move(requests))[0]);
}

}  // namespace espalier
