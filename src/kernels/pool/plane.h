// What pool/plane.cuh is given beside its tensors.
#pragma once

#include "kernels/common/divider.h"

namespace smelt::kernels {

struct PlaneGeometry {
  u32 outputs;                  // N * C, channels last in vectors of C
  Divider channels;             // C, channels last in vectors
  i32 pixels;                   // P, else in vectors
  i32 elements;                 // P: what a mean divides by
  i64 from[3], to[2];           // strides along N, C, P (of one element) and N, C
};
static_assert(sizeof(PlaneGeometry) == 64);

}  // namespace smelt::kernels
