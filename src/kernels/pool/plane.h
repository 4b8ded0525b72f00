// The argument of pool/plane.cuh.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct PoolPlaneArgs {
  const T* x;                   // [N, C, P]
  T* y;                         // [N, C]
  i64 from[3], to[2];           // strides of x along N, C, P (of one element), of y along N, C
  u32 outputs;                  // N * C, channels last in vectors of C
  Divider channels;             // C, channels last in vectors
  i32 pixels;                   // P, else in vectors
  i32 elements;                 // P: what a mean divides by
};
static_assert(sizeof(PoolPlaneArgs<void>) == 80);

}  // namespace smelt::kernels
