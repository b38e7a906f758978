#include "engine/drafter.h"

#include <algorithm>

namespace espalier {

void DrafterCounters::judge(double first_probability, std::optional<size_t> rank) {
  constexpr std::array<double, 7> kBounds = {0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97};
  const auto above = std::ranges::upper_bound(kBounds, first_probability);
  PlaceCounters& place = places[size_t(above - kBounds.begin())];
  ++place.judged;
  if (rank && *rank < place.right.size()) ++place.right[*rank];
}

int64_t DrafterCounters::judged() const {
  int64_t sum = 0;
  for (const PlaceCounters& place : places) sum += place.judged;
  return sum;
}

double DrafterCounters::first_right() const {
  int64_t right = 0;
  for (const PlaceCounters& place : places) right += place.right[0];
  return judged() > 0 ? double(right) / double(judged()) : 0;
}

}  // namespace espalier
