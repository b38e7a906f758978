#include "engine/draft_worth.h"

#include <algorithm>
#include <cmath>

namespace espalier {

bool worth_a_pass(const TokenTree& tree, const DraftRound& round, const PassCosts& costs) {
  if (tree.at(0).cell < 0 || round.pass_s == 0 || costs.one == 0) return true;
  double gain = 0, tokens = 1;
  for (const int32_t node : tree.frontier(int32_t(round.width))) gain += std::exp(tree.at(node).log_weight);
  for (const int32_t node : tree.heaviest(int32_t(round.most))) tokens += std::exp(tree.at(node).log_weight);
  const double seconds =
      double(round.passes) * round.pass_s + costs.of(std::min<int64_t>(round.most, tree.size() - 1));
  return gain / round.pass_s > tokens / seconds;
}

}  // namespace espalier
