#include "engine/speculation.h"

#include <algorithm>

#include "base/clock.h"

namespace espalier {
namespace {

constexpr int64_t kPlainFirst = 2;   // passes that say what one token costs
constexpr int64_t kJudgedAfter = 12, kRest = 64;
constexpr double kMemory = 0.9;      // of what passes cost and bring: some ten passes

double blend(double old, double now) { return old == 0 ? now : kMemory * old + (1 - kMemory) * now; }

/// Without what lies deeper than `deepest`.
Draft pruned(Draft draft, int64_t deepest) {
  Draft kept;
  std::vector<int32_t> place(draft.tokens.size(), -1), depth(draft.tokens.size(), 1);
  for (size_t i = 0; i < draft.tokens.size(); ++i) {
    const int32_t parent = draft.parents[i];
    if (parent >= 0) depth[i] = depth[size_t(parent)] + 1;
    if (depth[i] > deepest) continue;
    place[i] = int32_t(kept.size());
    kept.tokens.push_back(draft.tokens[i]);
    kept.parents.push_back(parent < 0 ? -1 : place[size_t(parent)]);
  }
  kept.expected = draft.expected;
  return kept;
}

}  // namespace

bool Speculation::rests() {
  if (counters_.plain_passes < kPlainFirst) return true;
  if (!options_.adaptive) return false;
  if (resting_ > 0) return --resting_ > 0;
  const bool loses = rounds_ >= kJudgedAfter && round_tokens_ * costs_.one < round_s_;
  if (!loses) return false;
  rounds_ = 0;
  round_s_ = round_tokens_ = 0;
  resting_ = kRest;
  return true;
}

Draft Speculation::propose(std::span<const int32_t> text, int64_t deepest) {
  waited_s_ = 0;
  if (!on() || deepest <= 0 || rests()) return {};
  const Stopwatch watch;
  costs_.tokens_per_s = round_s_ > 0 ? round_tokens_ / round_s_ : 0;
  Draft draft = pruned(options_.drafter->propose(text, options_.most, costs_), deepest);
  waited_s_ = watch.seconds();
  counters_.draft_s += waited_s_;
  return draft;
}

void Speculation::note(double seconds, int64_t guessed, int64_t accepted) {
  if (guessed == 0) {
    costs_.one = blend(costs_.one, seconds);
    ++counters_.plain_passes;
    counters_.plain_s += seconds;
  } else {
    costs_.a_node = blend(costs_.a_node, std::max(0.0, (seconds - costs_.one) / double(guessed)));
    ++counters_.passes;
    counters_.guessed += guessed;
    counters_.accepted += accepted;
    counters_.verify_s += seconds;
  }
  if (guessed == 0 && waited_s_ == 0) return;
  ++rounds_;
  round_s_ = blend(round_s_, seconds + waited_s_);
  round_tokens_ = blend(round_tokens_, 1 + double(accepted));
}

}  // namespace espalier
