#include "ops/collective.h"

namespace espalier {

Var copy_to_group(Tape& tape, const Var& x, Communicator& group) {
  if (group.size() > 1) tape.record([x, &group] { group.all_reduce(x.grad(), ReduceOp::kSum); });
  return x;
}

Var reduce_from_group(Tape&, const Var& x, Communicator& group) {
  if (group.size() > 1) group.all_reduce(x.value(), ReduceOp::kSum);
  return x;
}

}  // namespace espalier
