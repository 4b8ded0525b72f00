// The argument of rnn/rounded.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct RoundedInputArgs {
  const float* x;         // [steps, batch, input], or [batch, steps, input]
  const i32* lengths;     // [batch]; null: all steps
  float* ranges;          // [parts, 2]: least and largest
  float* y;               // as x
  i64 steps, batch, input;
  i32 batch_first;
  u32 parts;
};
static_assert(sizeof(RoundedInputArgs) == 64);

}  // namespace smelt::kernels
