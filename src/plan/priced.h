// Several steps' problems, priced together: what a plan compares before it takes one way or another.
#pragma once

#include <span>
#include <vector>

#include "plan/context.h"

namespace smelt::plan {

/// A problem, with what is needed to measure it.
struct Priced {
  ops::BoundNode node;
  ops::Offer offer;
};

/// The node's offer; no candidates where no kernel takes it.
Priced priced(ops::BoundNode node, const Context& context);

/// Microseconds that each takes on the GPU by what the tuner chooses. Estimates where nothing may be measured, or the time is up;
/// infinite where there is no candidate.
struct Prices {
  std::vector<double> us;
  bool measured = false;
};
Prices prices(std::span<const Priced> problems, Context& context, bool may_measure);

}  // namespace smelt::plan
