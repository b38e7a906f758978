// Drafter: who guesses how a text goes on, for the model to verify in one pass. Whatever is guessed, the text is the
// model's own: a guess is kept only where the model draws the same token itself (engine/generator.h).
#pragma once
#include <array>
#include <cstdint>
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
  double of(int64_t nodes) const { return one + a_node * double(nodes); }
};

struct DrafterCounters {
  int64_t passes = 0;       ///< of the draft model
  double busy_s = 0;        ///< in these
  double wait_s = 0;        ///< that the caller waited for guesses
  int64_t kept_nodes = 0;   ///< guesses that outlived a verdict, with their cache
  int64_t hits = 0, misses = 0;  ///< verdicts within the tree and outside it
  /// Of tokens behind which there were guesses: how many, and how often the guess that weighed most was right, the
  /// second, ...
  int64_t judged = 0;
  std::array<int64_t, 8> right{};
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
