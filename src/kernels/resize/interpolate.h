// The constants and the argument of resize/interpolate.cuh.
#pragma once

#include "kernels/movement/axes.h"

namespace smelt::kernels {

struct InterpolateConfig {
  int vec;                      // elements of a thread
  int threads;                  // of a block
};

/// T: the elements' type, void on the host; A: the sums'.
template <class T, class A, int Rank> struct InterpolateArgs {
  const T* x;                   // [E0, …, ER-1, width]
  T* y;                         // likewise
  const i64* places;            // of each index of a resized axis, its taps
  const A* weights;             // likewise
  A beyond;                     // the value of what lies outside of x
  u32 chunks, width;            // chunks of y's rows, one a thread; elements of a row
  Divider per_row;              // chunks of a row
  Axes<Rank> axes;
};
static_assert(sizeof(InterpolateArgs<void, float, 1>) == 56 + axes_bytes(1) &&
              sizeof(InterpolateArgs<void, double, 2>) == 64 + axes_bytes(2));

}  // namespace smelt::kernels
