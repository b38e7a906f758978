// Speculation: whether a pass verifies guesses, how many, and what came of it. Costs are measured as passes run; where
// guessing brings fewer tokens a second than plain decoding it rests, and is tried again later.
#pragma once
#include "engine/drafter.h"

namespace espalier {

struct SpeculationOptions {
  Drafter* drafter = nullptr;  ///< borrowed; null: none
  int64_t most = 12;           ///< guesses a pass
  bool adaptive = true;        ///< rest where it loses
};

struct SpeculationCounters {
  int64_t plain_passes = 0, passes = 0;  ///< without and with guesses
  int64_t guessed = 0, accepted = 0;     ///< tokens
  double plain_s = 0, verify_s = 0;      ///< in these passes
  double draft_s = 0;                    ///< that passes waited for guesses

  double accepted_length() const { return passes > 0 ? 1 + double(accepted) / double(passes) : 1; }
};

class Speculation {
 public:
  explicit Speculation(const SpeculationOptions& options) : options_(options) {}

  bool on() const { return options_.drafter != nullptr; }
  int64_t most() const { return on() ? options_.most : 0; }
  /// Guesses behind the text, of depth `deepest` at most; none where this pass is to be plain.
  Draft propose(std::span<const int32_t> text, int64_t deepest);
  /// A pass took so long, verified so many guesses, and so many of them were right.
  void note(double seconds, int64_t guessed, int64_t accepted);

  const SpeculationCounters& counters() const { return counters_; }
  const PassCosts& costs() const { return costs_; }

 private:
  bool rests();

  SpeculationOptions options_;
  SpeculationCounters counters_;
  PassCosts costs_;
  double waited_s_ = 0;          // for the guesses of this pass
  double round_s_ = 0, round_tokens_ = 0;  // of late
  int64_t rounds_ = 0, resting_ = 0;
};

}  // namespace espalier
