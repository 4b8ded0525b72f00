// Rotary position embedding turns pairs of elements of a row by an angle. Su et al., arXiv:2104.09864.
//
//   y1 = x1 * cos1 - x2 * sin1
//   y2 = x2 * cos2 + x1 * sin2
//
//   x, y        [rows…, D]; a pair is elements i and i + D/2, or 2i and 2i + 1
//   cos, sin    [rows…, D] or [rows…, D/2] broadcast; with D/2 there is one entry a pair
//
// Of two x that are turned by the same tables (queries and keys) the second's blocks come behind the first's.
//
// A thread turns C.pairs pairs, neighbours along the axis that lies innermost in x. Launch: blocks of C.threads threads.
#pragma once

#include "attention/element.cuh"
#include "kernels/attention/rotary.h"
#include "pointwise/walk.cuh"

/// How the two elements of Pairs pairs are read and written. `contiguous`, `repeated` and `strided` are load's 1, 0 and -1 for
/// each of the two; `together`: both lie side by side, and one access takes all pairs.
enum PairAccess { strided = -1, repeated = 0, contiguous = 1, together = 2 };

/// `second`: elements from the first of a pair to the other; 0 where there is one entry a pair.
template <int How, bool Single, class T, int Pairs>
__device__ __forceinline__ void load_pairs(Vector<T, Pairs> (&x)[2], const T* view, i64 at, i64 second, i64 stride, u32 count) {
  if (How == together && count >= Pairs) {
    Vector<T, 2 * Pairs> both;
    load<1>(both, view, at, 1, 2 * Pairs);
#pragma unroll
    for (int i = 0; i < 2 * Pairs; ++i) x[i % 2].at[i / 2] = both.at[i];
  } else {
    constexpr int step = How == together ? -1 : How;
    load<step>(x[0], view, at, stride, count);
    if (Single) x[1] = x[0];
    else load<step>(x[1], view, at + second, stride, count);
  }
}

template <int How, class T, int Pairs>
__device__ __forceinline__ void store_pairs(T* view, i64 at, i64 second, i64 stride, u32 count, const Vector<T, Pairs> (&x)[2]) {
  if (How == together && count >= Pairs) {
    Vector<T, 2 * Pairs> both;
#pragma unroll
    for (int i = 0; i < 2 * Pairs; ++i) both.at[i] = x[i % 2].at[i / 2];
    store<1>(view, at, 1, 2 * Pairs, both);
  } else {
    constexpr int step = How == together ? -1 : How;
    store<step>(view, at, stride, count, x[0]);
    store<step>(view, at + second, stride, count, x[1]);
  }
}

template <class T, class Table, int Pairs>
__device__ __forceinline__ void turn(const Vector<T, Pairs> (&x)[2], const Vector<Table, Pairs> (&cos)[2],
                                     const Vector<Table, Pairs> (&sin)[2], Vector<T, Pairs> (&y)[2]) {
#pragma unroll
  for (int i = 0; i < Pairs; ++i) {
    const Computing<T> a = computing(x[0].at[i]), b = computing(x[1].at[i]);
    y[0].at[i] = narrowed<T>(a * computing(cos[0].at[i]) - b * computing(sin[0].at[i]));
    y[1].at[i] = narrowed<T>(b * computing(cos[1].at[i]) + a * computing(sin[1].at[i]));
  }
}

/// `block`: among those of this x.
template <RotaryConfig C, class T, class Table, int Rank>
__device__ __forceinline__ void rotate_pairs(const RotaryArgs<T, Table, Rank>& a, u32 block) {
  const Walk<Rank, 4>& walk = a.walk;
  const u32 chunk = block * static_cast<u32>(C.threads) + threadIdx.x;
  if (chunk >= walk.chunks) return;
  i64 at[4];
  const u32 count = walk.template locate<C.pairs>(chunk, at);
  Vector<T, C.pairs> of_x[2], of_y[2];                                      // (2, pairs)
  Vector<Table, C.pairs> of_cos[2], of_sin[2];                              // (2, pairs)
  load_pairs<C.x, false>(of_x, a.x, at[0], a.second[0], walk.strides[0][Rank - 1], count);
  load_pairs<C.cos, C.cos_single>(of_cos, a.cos, at[2], a.second[2], walk.strides[2][Rank - 1], count);
  load_pairs<C.sin, C.sin_single>(of_sin, a.sin, at[3], a.second[3], walk.strides[3][Rank - 1], count);
  turn(of_x, of_cos, of_sin, of_y);
  store_pairs<C.y>(a.y, at[1], a.second[1], walk.strides[1][Rank - 1], count, of_y);
}

template <RotaryConfig C, class T, class Table, int Rank>
__device__ __forceinline__ void rotate_pairs(const RotaryArgs<T, Table, Rank>& a) {
  rotate_pairs<C>(a, blockIdx.x);
}

template <RotaryConfig First, RotaryConfig Second, class T, class Table, int R, int S>
__device__ __forceinline__ void rotate_pairs(const JoinedRotaryArgs<T, Table, R, S>& a) {
  if (blockIdx.x < a.blocks) rotate_pairs<First>(a.first, blockIdx.x);
  else rotate_pairs<Second>(a.second, blockIdx.x - a.blocks);
}
