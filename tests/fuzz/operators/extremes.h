// Cases whose numbers say how much there is to do: attributes and short inputs as large as a model can state them.
#pragma once

#include <vector>

#include "fuzz/operators/case.h"

namespace smelt::fuzz {

/// One changed case: some numbers of the model are `value`.
struct Extreme {
  std::vector<size_t> numbers;  // in the order in which extremes_of() finds them
  int64_t value = 0;
};

/// All that are tried of a case: each number alone, and up to three together, with values from -2^63 to 2^63 - 1; then each input
/// without elements, where another extent is large.
std::vector<Extreme> extremes_of(const OperatorCase& c);

void apply(OperatorCase& c, const Extreme& extreme);

/// What makes other cases worth a try: operators, the attributes that are there, and what words say.
std::string kind_of(const OperatorCase& c);

}  // namespace smelt::fuzz
