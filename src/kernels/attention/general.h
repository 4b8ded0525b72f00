// The arguments of attention/general.cuh.
#pragma once

#include "kernels/common/args.h"

namespace smelt::kernels {

/// Keys or values: those of a cache, then fresh ones. T: the elements' type; void on the host.
template <class T> struct CachedRows {
  const T* past;             // [batch, heads, past_steps, width], dense; null where past_steps is 0
  const T* fresh;            // [batch, heads, steps, width]
  i64 strides[3];            // of fresh, along batch, heads, steps
  i64 heads, past_steps, width;

#ifdef __CUDACC__
  __device__ __forceinline__ const T* row(i64 b, i64 h, i64 j) const {
    return j < past_steps ? past + ((b * heads + h) * past_steps + j) * width
                          : fresh + b * strides[0] + h * strides[1] + (j - past_steps) * strides[2];
  }
#endif
};

/// T, Mask: the elements' types; void on the host.
template <class T, class Mask> struct GeneralArgs {
  const T* q;                // [batch, heads, steps, size]
  CachedRows<T> k, v;        // [batch, kv_heads, total, size and v_size]
  const Mask* mask;          // broadcasts to [batch, heads, steps, columns]; null: none
  const i64* lengths;        // [batch]: keys that exist; null: all
  T* y;                      // [batch, heads, steps, v_size]
  T* shown;                  // [batch, heads, steps, total]: the scores as an output; null: they are none
  float* scores;             // [batch, heads, steps, total]: workspace
  i64 q_strides[3], y_strides[3];  // along batch, heads, steps
  i64 mask_strides[4];
  i64 heads, steps, total;
  i64 columns;               // keys that the mask covers
  i64 left, right;           // of the window; -1: none
  float scale, cap;          // cap 0: none
  i32 causal, stage;         // which scores `shown` gets: 0 products, 1 capped, 2 with the bias, 3 weights
};
static_assert(sizeof(GeneralArgs<void, void>) == 320);

/// T: the elements' type; void on the host.
template <class T> struct JoinArgs {
  CachedRows<T> rows;
  T* present;                // [batch, heads, total, width], dense
  i64 total;
  u32 count;                 // elements of `present`
  u32 padding;
};
static_assert(sizeof(JoinArgs<void>) == 88);

}  // namespace smelt::kernels
