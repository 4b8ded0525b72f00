// The plan of attention/tiled.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct TiledPlan {
  u32 causal;          // query i sees keys up to i + offset
  i32 offset;
};
static_assert(sizeof(TiledPlan) == 8);

}  // namespace smelt::kernels
