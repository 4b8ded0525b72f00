// The argument of softmax/quantized.cuh.
#pragma once

#include "kernels/pointwise/walk.h"

namespace smelt::kernels {

/// X, Y: the elements' types; void on the host.
template <class X, class Y, int Rank> struct QuantizedSoftmaxArgs {
  const X* x;                   // [rows…, width]
  Y* y;                         // like x
  const float* x_scale;
  const X* x_zero;              // null: 0
  const float* y_scale;
  const Y* y_zero;              // null: 0
  Walk<Rank, 2> rows;           // where a row begins in x and in y
  u32 width;
};

}  // namespace smelt::kernels
