// Drafter: who guesses how a text goes on, for the model to verify in one pass. Whatever is guessed, the text is the
// model's own: a guess is kept only where the model draws the same token itself (engine/generator.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace espalier {

/// Guessed tokens as a tree: parents[i] is the index of the token before it, -1 for the text's last token. Parents come
/// before their children, and no token has two children of one id.
struct Draft {
  std::vector<int32_t> tokens, parents;
  double expected = 0;  ///< how many of them the drafter believes to be right

  int64_t size() const { return int64_t(tokens.size()); }
};

/// What a pass costs in this machine's seconds, for those who weigh guesses against them.
struct PassCosts {
  double one = 0;       ///< the model's pass over one token; 0: not known yet
  double a_node = 0;    ///< what each guess adds to it
  double tokens_per_s = 0;  ///< that guessing brings of late, waiting included; 0: not known yet
  double of(int64_t nodes) const { return one + a_node * double(nodes); }
};

/// Places of a text at which the draft was about as sure as at each other.
struct PlaceCounters {
  int64_t judged = 0;              ///< how many were judged: guesses stood behind them when the text went on
  std::array<int64_t, 8> right{};  ///< how often the likeliest guess was right, the second, ...
};

struct DrafterCounters {
  int64_t passes = 0;       ///< of the draft model
  double busy_s = 0;        ///< in these
  double wait_s = 0;        ///< that the caller waited for guesses
  int64_t kept_nodes = 0;   ///< guesses that outlived a verdict, with their cache
  int64_t hits = 0, misses = 0;  ///< verdicts within the tree and outside it
  /// By the probability of the first guess: below 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, and above.
  std::array<PlaceCounters, 8> places{};

  /// The text went on where the first guess had this probability; `rank` is the guess that was right, if one was.
  void judge(double first_probability, std::optional<size_t> rank);
  int64_t judged() const;
  /// The share of places at which the first guess was right; 0 where none was judged.
  double first_right() const;
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// At most `most` guesses behind `text`, the whole text so far. Usually the text of the last call and what was drawn
  /// since; any other text is a new one.
  virtual Draft propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) = 0;
  virtual DrafterCounters counters() const { return {}; }
};

}  // namespace espalier
