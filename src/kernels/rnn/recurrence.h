// The extents and strides of a recurrent layer, and what its node asks for.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct Recurrence {
  i64 steps, batch, input, hidden, directions;
  i64 x[2], y[3], state[2];  // strides along steps and batch; steps, directions and batch; directions and batch
  float clip;                // 0: none
  i32 reverse, linear_before_reset, input_forget;
};
static_assert(sizeof(Recurrence) == 112);

}  // namespace smelt::kernels
