// The constants of attention/rotary.cuh, and what its kernel is given beside its tensors and their walk.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct RotaryConfig {
  int pairs;                    // of a thread
  int threads;                  // of a block
  int x, y, cos, sin;           // how each is accessed: PairAccess
  int cos_single, sin_single;   // 1: the table has one entry a pair
};

/// Of x, y, cos and sin: elements from the first of a pair to the other; 0 where there is one entry a pair.
struct RotarySeconds {
  i64 of[4];
};
static_assert(sizeof(RotarySeconds) == 32);

}  // namespace smelt::kernels
