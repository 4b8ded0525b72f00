// The argument of attention/tiled.cuh.
#pragma once

#include "kernels/attention/problem.h"

namespace smelt::kernels {

/// T: the elements' type; void on the host.
template <class T> struct TiledArgs {
  AttentionProblem<T> problem;
  u32 causal;            // query i sees keys up to i + offset
  i32 offset;
};
static_assert(sizeof(TiledArgs<void>) == 208);

}  // namespace smelt::kernels
