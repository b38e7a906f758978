#include "text/bpe_trainer.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr size_t kTaskBytes = size_t{1} << 18;  // of documents that one thread counts at a stretch
constexpr int kTasksPerThread = 16;             // read before they are counted

const SplitPattern& split_pattern(const std::string& name) {
  const SplitPattern* pattern = find_split_by_name(name);
  if (!pattern)
    throw error(Code::kUsage, "training a tokenizer: no pattern is called \"{}\"; expected gpt2, llama3 or qwen2",
                name);
  return *pattern;
}

using Pair = uint64_t;  // left id in the upper half, so that pairs compare as the library compares them
Pair make_pair(uint32_t left, uint32_t right) { return Pair{left} << 32 | right; }

/// Dense numbers for pairs, by open addressing.
class PairIndex {
 public:
  /// The number of a pair; a new one gets the next.
  uint32_t of(Pair pair) {
    if ((pairs_.size() + 1) * 2 > slots_.size()) grow();
    size_t i = home(pair);
    for (; slots_[i] != kFree; i = (i + 1) & (slots_.size() - 1))
      if (pairs_[slots_[i]] == pair) return slots_[i];
    slots_[i] = uint32_t(pairs_.size());
    pairs_.push_back(pair);
    return slots_[i];
  }
  size_t size() const { return pairs_.size(); }
  Pair pair(uint32_t number) const { return pairs_[number]; }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};
  size_t home(Pair pair) const {
    return size_t(((pair ^ pair >> 32) * 0x9E3779B97F4A7C15u) >> 20) & (slots_.size() - 1);
  }
  void grow() {
    slots_.assign(slots_.size() * 2, kFree);
    for (uint32_t number = 0; number < pairs_.size(); ++number) {
      size_t i = home(pairs_[number]);
      while (slots_[i] != kFree) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = number;
    }
  }
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(1 << 16, kFree);
  std::vector<Pair> pairs_;
};

/// The merge loop. Its steps are the library's, also where those are odd: a pair that two different merges bring forth
/// waits in the queue twice, each time with its own places, and may become two merges.
class Trainer {
 public:
  Trainer(const BpeTrainOptions& options, const PieceCounter& pieces);
  void run(Progress& progress);
  ByteLevelModel take() { return std::move(model_); }

 private:
  struct Word {
    size_t begin;
    uint32_t size;
    int64_t count;
  };
  struct Candidate {
    int64_t count;
    uint32_t pair;   // its number
    uint32_t places;  // index into places_, growing with time
  };

  uint32_t add_token(const std::string& token);
  void add_words(const PieceCounter& pieces);
  void change(uint32_t left, uint32_t right, int64_t times, uint32_t word);
  void queue_touched();
  void merge_in(uint32_t word, uint32_t left, uint32_t right, uint32_t result);
  bool comes_later(const Candidate& a, const Candidate& b) const;
  void push(const Candidate& candidate);
  Candidate pop();

  const BpeTrainOptions& options_;
  ByteLevelModel model_;
  std::unordered_map<std::string, uint32_t> ids_;
  uint32_t byte_ids_[256];
  std::vector<uint32_t> symbols_;  // of all words; a word shrinks in place
  std::vector<Word> words_;

  PairIndex pairs_;
  std::vector<int64_t> counts_;                 // of each pair
  std::vector<std::vector<uint32_t>> touched_;  // words where each pair appeared since queue_touched()
  std::vector<uint32_t> touched_pairs_;
  std::vector<std::vector<uint32_t>> places_;
  std::vector<Candidate> heap_;
};

Trainer::Trainer(const BpeTrainOptions& options, const PieceCounter& pieces) : options_(options) {
  model_.pattern = &split_pattern(options.pattern);
  model_.special_tokens = options.special_tokens;
  for (const std::string& token : options.special_tokens) add_token(token);
  for (const uint8_t byte : bytes_in_char_order()) {
    const char c = char(byte);
    byte_ids_[byte] = add_token(bytes_to_chars({&c, 1}));
  }
  add_words(pieces);
}

/// The id of a token; a new one gets the next.
uint32_t Trainer::add_token(const std::string& token) {
  const auto [entry, is_new] = ids_.emplace(token, uint32_t(model_.tokens.size()));
  if (is_new) model_.tokens.push_back(token);
  return entry->second;
}

void Trainer::add_words(const PieceCounter& pieces) {
  pieces.for_each([&](std::string_view piece, uint64_t count) {
    const auto word = uint32_t(words_.size());
    words_.push_back({symbols_.size(), uint32_t(piece.size()), int64_t(count)});
    for (const char byte : piece) symbols_.push_back(byte_ids_[uint8_t(byte)]);
    const uint32_t* symbols = symbols_.data() + words_.back().begin;
    for (size_t i = 0; i + 1 < piece.size(); ++i) change(symbols[i], symbols[i + 1], 1, word);
  });
  queue_touched();
}

inline void Trainer::change(uint32_t left, uint32_t right, int64_t times, uint32_t word) {
  const uint32_t pair = pairs_.of(make_pair(left, right));
  if (pair == counts_.size()) {
    counts_.push_back(0);
    touched_.emplace_back();
  }
  counts_[pair] += times * words_[word].count;
  if (times < 0) return;
  std::vector<uint32_t>& words = touched_[pair];
  if (words.empty()) touched_pairs_.push_back(pair);
  if (words.empty() || words.back() != word) words.push_back(word);
}

void Trainer::queue_touched() {
  for (const uint32_t pair : touched_pairs_) {
    if (counts_[pair] > 0) {
      push({counts_[pair], pair, uint32_t(places_.size())});
      places_.push_back(std::move(touched_[pair]));
    }
    touched_[pair].clear();
  }
  touched_pairs_.clear();
}

/// Whether b is merged before a: frequent pairs first, then smaller ids, then the older entry.
bool Trainer::comes_later(const Candidate& a, const Candidate& b) const {
  if (a.count != b.count) return a.count < b.count;
  const Pair pair_a = pairs_.pair(a.pair), pair_b = pairs_.pair(b.pair);
  return pair_a != pair_b ? pair_a > pair_b : a.places > b.places;
}

void Trainer::push(const Candidate& candidate) {
  heap_.push_back(candidate);
  std::push_heap(heap_.begin(), heap_.end(), [this](auto& a, auto& b) { return comes_later(a, b); });
}

Trainer::Candidate Trainer::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), [this](auto& a, auto& b) { return comes_later(a, b); });
  const Candidate top = heap_.back();
  heap_.pop_back();
  return top;
}

/// Merges each occurrence of the pair in a word, from the left, and counts the pairs that vanish and appear.
void Trainer::merge_in(uint32_t word_index, uint32_t left, uint32_t right, uint32_t result) {
  Word& word = words_[word_index];
  uint32_t* const symbols = symbols_.data() + word.begin;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < word.size; ++kept) {
    if (symbols[i] != left || i + 1 == word.size || symbols[i + 1] != right) {
      symbols[kept] = symbols[i++];
      continue;
    }
    if (kept > 0) {
      change(symbols[kept - 1], left, -1, word_index);
      change(symbols[kept - 1], result, 1, word_index);
    }
    i += 2;
    symbols[kept] = result;
    if (i < word.size) {
      change(right, symbols[i], -1, word_index);
      change(result, symbols[i], 1, word_index);
    }
  }
  word.size = kept;
}

void Trainer::run(Progress& progress) {
  const int64_t start = int64_t(model_.tokens.size());
  progress.begin("merging pairs", options_.vocab_size - start, "tokens");
  while (int64_t(model_.tokens.size()) < options_.vocab_size && !heap_.empty()) {
    Candidate top = pop();
    if (top.count != counts_[top.pair]) {  // other merges have taken some of it since
      top.count = counts_[top.pair];
      push(top);
      continue;
    }
    if (top.count < 1 || top.count < options_.min_frequency) break;
    const Pair pair = pairs_.pair(top.pair);
    const auto left = uint32_t(pair >> 32), right = uint32_t(pair);
    const uint32_t result = add_token(model_.tokens[left] + model_.tokens[right]);
    model_.merges.push_back({int32_t(left), int32_t(right), int32_t(result)});
    std::vector<uint32_t> places;
    places.swap(places_[top.places]);
    for (const uint32_t word : places) merge_in(word, left, right, result);
    queue_touched();
    if (model_.merges.size() % 64 == 0) progress.update(int64_t(model_.tokens.size()) - start, model_.tokens.back());
  }
  progress.update(int64_t(model_.tokens.size()) - start, "");
  progress.end();
}

/// Documents one behind the other, so that memory does not depend on how long each is.
struct CountTask {
  std::string text;
  std::vector<size_t> ends;  // of the documents

  /// Takes documents until it is full; false where there are no more.
  bool read(NextDocument& next, std::string& document) {
    text.clear();
    ends.clear();
    while (text.size() < kTaskBytes) {
      document.clear();
      if (!next(document)) return false;
      text += is_utf8(document) ? document : repair_utf8(document).text;
      ends.push_back(text.size());
    }
    return true;
  }

  void count(const SplitPattern& pattern, PieceCounter& counter) const {
    size_t start = 0;
    for (const size_t document_end : ends) {
      const std::string_view document = std::string_view(text).substr(start, document_end - start);
      for_each_piece(document, pattern.piece_end, char_classes(),
                     [&](size_t begin, size_t end) { counter.add(document.substr(begin, end - begin)); });
      start = document_end;
    }
  }
};

}  // namespace

PieceCounter count_pieces(Context& context, Progress& progress, const std::string& pattern_name, NextDocument next) {
  const SplitPattern& pattern = split_pattern(pattern_name);
  std::vector<PieceCounter> counters(size_t(context.pool.size()));
  std::vector<CountTask> tasks(counters.size() * kTasksPerThread);
  std::string document;
  uint64_t bytes = 0;
  progress.begin("counting pieces", 0, "MB");
  for (bool more = true; more;) {
    int64_t used = 0;
    while (more && used < int64_t(tasks.size())) {
      more = tasks[size_t(used)].read(next, document);
      bytes += tasks[size_t(used++)].text.size();
    }
    context.pool.parallel_for(
        used, [&](int64_t i, int worker) { tasks[size_t(i)].count(pattern, counters[size_t(worker)]); });
    progress.update(int64_t(bytes >> 20), "");
  }
  progress.end();
  for (size_t i = 1; i < counters.size(); ++i) {
    counters[0].add(counters[i]);
    counters[i] = PieceCounter();
  }
  return std::move(counters[0]);
}

Tokenizer train_bpe(Progress& progress, const BpeTrainOptions& options, const PieceCounter& pieces) {
  const int64_t least = 256 + int64_t(options.special_tokens.size());
  if (options.vocab_size < least || options.vocab_size > kMaxVocabulary)
    throw error(Code::kUsage,
                "training a tokenizer: a vocabulary of {}; expected {} (the bytes and special tokens) to {}",
                options.vocab_size, least, kMaxVocabulary);
  for (const std::string& token : options.special_tokens)
    if (token.empty() || !is_utf8(token))
      throw error(Code::kUsage, "training a tokenizer: a special token is {}; expected text in UTF-8",
                  token.empty() ? "empty" : "ill-formed");
  Trainer trainer(options, pieces);
  trainer.run(progress);
  return Tokenizer::from_json(write_tokenizer_json(trainer.take()), "the trained tokenizer");
}

Tokenizer train_bpe(Context& context, Progress& progress, const BpeTrainOptions& options, NextDocument next) {
  return train_bpe(progress, options, count_pieces(context, progress, options.pattern, next));
}

}  // namespace espalier
