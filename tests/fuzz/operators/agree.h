// Whether two runs of a case agree, as far as rounding lets them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/operators/case.h"

namespace smelt::fuzz {

/// By output and element, how far a right result may lie from another; empty: as far as the outputs' types round.
using Slack = std::vector<std::vector<double>>;

/// How two runs' outputs differ by more than their types' rounding and `slack`; empty where they do not. What overflowed may be
/// infinite in one and large in the other; where the case is not tame, NaN in one and a number in the other.
std::string difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b, bool tame, const Slack& slack = {});

/// How far outputs move when what the case is fed, and the model's own numbers, move by as much as they round: a right result of
/// numbers that close by is as right. Where attention's scores are 4e8, one unit in their last place is 32, and a softmax of them has
/// no certain digit. Where numbers are not tame, also by the rounding of the largest: sums of them cancel. `run` gives the outputs of a case, none where it fails.
Slack spread(const OperatorCase& c, const std::vector<Tensor>& outputs,
             const std::function<std::vector<Tensor>(const OperatorCase&)>& run, Random& random);

/// Whether all floats that the case is fed, and the model's own, are finite and below 1e4.
bool is_tame(const OperatorCase& c);

/// Whether a finite number among what the case is fed, or among the model's own, has a square beyond its type: then one way to
/// compute a variance or a norm overflows, another does not, and both are right.
bool squares_overflow(const OperatorCase& c);

}  // namespace smelt::fuzz
