// Candidates: the tokens that may still be drawn, and the filters that drop some of them. They stay in order of ids.
//
// Every filter keeps the first tokens of some ranking: of falling logit, the lower id first where logits are equal, if
// nothing else is said. So ties are settled the same way everywhere. Only where that cut falls is sought; nothing is
// sorted but a narrow band around it. A filter that drops nothing changes nothing. None drops all.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/logit_scan.h"

namespace espalier {

struct Candidate {
  int32_t id;
  float logit;
  double probability;
};

class Candidates {
 public:
  std::span<const Candidate> list() const { return list_; }

  /// All tokens whose logit is at least `floor` and not -infinity.
  void gather(const LogitScan& scan, float floor);

  /// This one alone.
  void assign(const Candidate& c) { list_.assign(1, c); }

  void keep_best();
  /// The k of the highest logits.
  void keep_top_k(int64_t k);
  /// The fewest first whose probabilities reach p, or the first alone (Holtzman et al. 2020, nucleus sampling).
  /// `total`: sum over all, those dropped before included if they count, of exp(logit - best); 0: of the list.
  void keep_top_p(double p, double total = 0);
  /// Those with probability >= p times the best one's (Nguyen et al. 2024).
  void keep_min_p(double p);
  /// With H = -sum q ln q, ranked by |-ln q - H|, the smallest first: the fewest whose probabilities reach p (Meister
  /// et al. 2023, locally typical sampling).
  void keep_typical(double p);
  /// Where at least two have probability >= threshold, drops all of these but the last in rank (p-e-w 2024, XTC:
  /// "exclude top choices", text-generation-webui pull request 6335).
  void drop_top_choices(double threshold);
  /// Those with surprise -log2 probability <= mu, or the first alone (Basu et al. 2021, mirostat 2). Probabilities must
  /// stand; they are normalised again.
  void keep_surprise(double mu);

  /// probability = softmax(logit / temperature), in f64, in order of ids. Temperature 0 keeps the best one.
  void weigh(double temperature);
  /// H / ln n of n candidates, H as in keep_typical: 0 where one is certain, 1 where all are alike.
  double relative_entropy();

 private:
  float best_logit() const;
  double entropy() const;
  template <class Distance, class Measure>
  void keep_until(double enough, Distance distance, Measure measure);

  std::vector<Candidate> list_, boundary_;
};

}  // namespace espalier
