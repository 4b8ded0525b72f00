// Adds the parts of attention whose keys were split over the grid (attention/flash_block.cuh), in the order of the splits:
//
//   y[row, :] = sum over s of w_s O_s[row, :] / sum over s of w_s l_s          w_s = exp(m_s - max of all m_s)
//
//   O    (splits, rows, ValueDepth)    at the begin of `partial`
//   m, l (splits, rows, 2)             behind it: maximum and sum
//
// A thread has four columns. Launch: blocks of 128 threads over rows x ValueDepth / 4.
#pragma once

#include "attention/flash_block.cuh"

template <int ValueDepth, bool Packed, class T> __device__ __forceinline__ void combine_parts(const FlashArgs<T>& a) {
  const AttentionProblem<T>& p = a.problem;
  const float* const partial = a.partial;
  const u32 splits = a.plan.splits;
  constexpr u32 vectors = ValueDepth / 4;
  const u32 all_rows = Packed ? p.group * p.queries : p.queries;
  const u64 rows = static_cast<u64>(a.plan.pairs) * all_rows, index = static_cast<u64>(blockIdx.x) * 128 + threadIdx.x,
            row = index / vectors;
  const u32 column = 4 * (index % vectors);
  if (row >= rows) return;
  using Stat = Vector<float, 2>;
  const Stat* const stats = reinterpret_cast<const Stat*>(partial + splits * rows * ValueDepth) + row;   // (splits, rows, 2)
  float highest = minus_infinity;
  for (u32 s = 0; s < splits; ++s) highest = fmaxf(highest, stats[s * rows].at[0]);
  const float most = highest == minus_infinity ? 0.f : highest;
  float total = 0, sums[4] = {};                                                     // (4) of a row
  for (u32 s = 0; s < splits; ++s) {
    const Stat stat = stats[s * rows];
    const float weight = smelt_flash::exp2_of((stat.at[0] - most) * smelt_flash::log2e);
    const Vector<float, 4> o = *reinterpret_cast<const Vector<float, 4>*>(partial + (s * rows + row) * ValueDepth + column);
    total += weight * stat.at[1];
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[e] += weight * o.at[e];
  }
  const bool zero = !(total > 0) && p.nan_guard;
  const float part = 1 / total;
#pragma unroll
  for (int e = 0; e < 4; ++e) sums[e] = zero ? 0.f : sums[e] * part;
  const u32 pair = static_cast<u32>(row / all_rows), heads = Packed ? p.heads / p.group : p.heads;
  const FlashRow of = flash_row<Packed>(p, pair % heads, static_cast<u32>(row % all_rows));
  T* const y = p.y + pair / heads * p.y_strides[0] + of.head * p.y_strides[1] + of.query * p.y_strides[2];   // [ValueDepth]
  u32* const to = reinterpret_cast<u32*>(y + column);
  to[0] = smelt_flash::rounded_pair<T>(sums[0], sums[1]);
  to[1] = smelt_flash::rounded_pair<T>(sums[2], sums[3]);
}
