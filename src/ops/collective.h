// Where a tensor-parallel layer talks to its group (Shoeybi et al. 2019): f and g of Megatron-LM. With one process
// both are the identity and record nothing.
#pragma once
#include "comm/communicator.h"
#include "ops/tape.h"

namespace espalier {

/// Before a column-parallel product (f): forward x itself; backward sums dx over the group.
Var copy_to_group(Tape& tape, const Var& x, Communicator& group);
/// After a row-parallel product (g): forward sums x over the group; backward dx itself.
Var reduce_from_group(Tape& tape, const Var& x, Communicator& group);

}  // namespace espalier
