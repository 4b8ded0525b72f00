// Random numbers for the operators that draw them: the Mersenne twister MT19937, 53 bits a number, so that a seed gives the
// same numbers on every machine (and those of numpy's RandomState with that seed).
#pragma once

#include <cstdint>
#include <random>

#include "ops/core/operator.h"

namespace smelt::ops {

/// Attribute seed, or a seed that differs at every call when the node has none.
uint32_t seed_of(const Node& node);

class Generator {
 public:
  explicit Generator(const Node& node);
  /// In [0, 1).
  double uniform();
  /// Mean 0, deviation 1; Marsaglia's polar method.
  double normal();

 private:
  std::mt19937 engine_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace smelt::ops
