// Two steps of one constant that want it in forms of their own.
#pragma once

#include "ops/core/packed_weights.h"
#include "ops/tactic_check.h"

namespace smelt::ops {

/// What a tactic's first candidate gives with the forms of weights that `store` holds; not valid() where there is none.
inline Tensor run_sharing(Trial& t, WeightStore& store, std::string_view tactic) {
  BoundNode bound = t.bound;
  bound.node = &t.node;
  bound.weights = &store;
  Machine machine;
  machine.threads = 2;
  machine.isa = "avx2";
  const Offer o = offer(bound, machine);
  const auto at = std::ranges::find(o.candidates, tactic, &Candidate::tactic);
  return at == o.candidates.end() ? Tensor() : run(t, *at);
}

/// Makes input `j` of `b` the same constant as input `i` of `a`, to the address.
inline void share(const Trial& a, size_t i, Trial& b, size_t j) {
  b.inputs[j] = a.inputs[i];
  b.bound.inputs[j].constant = a.inputs[i];
}

}  // namespace smelt::ops
