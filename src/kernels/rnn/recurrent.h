// The argument of rnn/recurrent.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// T, I: the types of the elements and of the lengths; void on the host. Pointers may be null where a comment says what for.
template <class T, class I> struct RecurrentArgs {
  const T* x;                    // [steps, batch, input]
  const T* w;                    // [directions, gates * hidden, input]
  const T* r;                    // [directions, gates * hidden, hidden]
  const T* bias;                 // [directions, 2 * gates * hidden]; null: zeros
  const I* lengths;              // [batch]; null: all steps
  const T *first_h, *first_c;    // [directions, batch, hidden]; null: zeros
  const T* peepholes;            // [directions, 3 * hidden]; null: zeros
  T* y;                          // [steps, directions, batch, hidden]; null: it is no output
  T *last_h, *last_c;            // [directions, batch, hidden]; null: they are no output
  i64 x_strides[2];              // along steps, batch
  i64 y_strides[3];              // along steps, directions, batch
  i64 state_strides[2];          // of the first and the last state, along directions, batch
  i64 steps, batch, input, hidden, directions;
  float clip;                    // 0: none
  i32 reverse, linear_before_reset, input_forget;
};
static_assert(sizeof(RecurrentArgs<void, void>) == 200);

}  // namespace smelt::kernels
