// Guesses without a model: what followed the last time that the text said the same few tokens (prompt lookup: Saxena
// 2023). Free, and good where an answer repeats its question: edits of code, summaries, tables.
#pragma once
#include "engine/drafter.h"

namespace espalier {

struct LookupOptions {
  int64_t longest = 4, shortest = 2;  ///< tokens that must be the same
};

class LookupDrafter : public Drafter {
 public:
  explicit LookupDrafter(const LookupOptions& options = {}) : options_(options) {}
  Draft propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) override;

 private:
  LookupOptions options_;
};

}  // namespace espalier
