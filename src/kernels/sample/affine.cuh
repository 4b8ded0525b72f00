// AffineGrid: the places of a regular grid from -1 to 1, moved by a matrix.
//
//   y[n, p, r] = theta[n, r] · (coordinates of p, innermost axis first; 1)
//
// In double, as on the CPU. Launch: one thread per place.
#pragma once

#include "common/convert.cuh"
#include "common/divide.cuh"
#include "kernels/sample/affine.h"

/// Align: -1 and 1 are the centres of the first and the last place, else their outer edges.
template <bool Align> __device__ __forceinline__ double place_between(u32 i, u32 extent) {
  const double at = i, length = extent;
  if (!Align) return (2 * at + 1) / length - 1;
  return extent == 1 ? 0.0 : 2 * at / (length - 1) - 1;
}

template <bool Align, class T, int Rank> __device__ __forceinline__ void affine_grid(const AffineArgs<T, Rank>& a) {
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= a.count) return;
  double at[Rank];                                                          // innermost axis first
  u32 rest = number;
#pragma unroll
  for (int d = 0; d < Rank; ++d) {
    const Divider& extent = a.extents[Rank - 1 - d];
    const u32 outer = extent.quotient(rest);
    at[d] = place_between<Align>(rest - outer * extent.divisor, extent.divisor);
    rest = outer;
  }
  const T* const theta = a.theta + static_cast<u64>(rest) * (Rank * (Rank + 1));                  // (Rank, Rank + 1)
#pragma unroll
  for (int r = 0; r < Rank; ++r) {
    const T* const row = theta + r * (Rank + 1);
    double sum = widened<double>(row[Rank]);
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) sum += widened<double>(row[d]) * at[d];
    a.y[static_cast<u64>(number) * Rank + r] = narrowed<T>(sum);
  }
}
