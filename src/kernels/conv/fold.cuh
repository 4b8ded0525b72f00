// Col2Im: the columns of blocks added back into the image that they were cut from. An element of y is the sum of those elements of
// columns that lie over it, tap by tap in row-major order, so that it does not depend on the order in which threads run.
//
// Launch: one thread per element of y.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "kernels/conv/fold.h"

/// Adds what the taps from axis D on have over the pixel `at`, those of the axes before being chosen.
template <int D, class A, class T, int Rank>
__device__ __forceinline__ void add_taps(const FoldArgs<T, Rank>& a, const u32 (&at)[Rank], const T* plane, u32 tap, u32 place, A& sum) {
  if constexpr (D == Rank) {
    u32 places = 1;
#pragma unroll
    for (int d = 0; d < Rank; ++d) places *= static_cast<u32>(a.places[d]);
    sum += widened<A>(plane[static_cast<u64>(tap) * places + place]);
  } else {
    const u32 pixel = at[D] + static_cast<u32>(a.pad[D]), taps = static_cast<u32>(a.taps[D]), dilation = static_cast<u32>(a.dilation[D]);
    const Divider& stride = a.strides[D];
    // Side by side, those of one place within a stride lie over it.
    const bool close = dilation == 1;
    const u32 step = close ? stride.divisor : 1;
    for (u32 t = close ? pixel - stride.quotient(pixel) * stride.divisor : 0; t < taps && t * dilation <= pixel; t += step) {
      const u32 from = pixel - t * dilation, q = stride.quotient(from);
      if (q * stride.divisor != from || q >= static_cast<u32>(a.places[D])) continue;
      add_taps<D + 1, A>(a, at, plane, tap * taps + t, place * static_cast<u32>(a.places[D]) + q, sum);
    }
  }
}

template <class A, class T, int Rank> __device__ __forceinline__ void fold_blocks(const FoldArgs<T, Rank>& a) {
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= a.count) return;
  u32 at[Rank], rest = number;
  u64 column = 1;                                             // elements of a plane's columns
#pragma unroll
  for (int d = Rank - 1; d >= 0; --d) {
    const u32 outer = a.extents[d].quotient(rest);
    at[d] = rest - outer * a.extents[d].divisor;
    rest = outer;
    column *= static_cast<u64>(a.taps[d]) * static_cast<u64>(a.places[d]);
  }
  A sum = A(0);
  add_taps<0, A>(a, at, a.x + rest * column, 0, 0, sum);
  a.y[number] = narrowed<T>(sum);
}
