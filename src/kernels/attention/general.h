// What attention/general.cuh is given beside its tensors.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

struct GeneralAttention {
  i64 heads, kv_heads, steps, past, total, size, v_size;
  i64 q[3], k[3], v[3], y[3];            // strides along batch, heads, steps
  i64 mask[4], columns;                  // its strides; keys that it covers
  i64 left, right;                       // of the window; -1: none
  float scale, cap;                      // cap 0: none
  i32 causal, stage;                     // which scores are an output: 0 products, 1 capped, 2 with the bias, 3 weights
};
static_assert(sizeof(GeneralAttention) == 224);

}  // namespace smelt::kernels
