// Softmax along one axis.
//
//   y = exp(x - top) / Σ exp(x - top)      top: the largest x of the row
//   y = x - top - log Σ exp(x - top)       Log
//
//   x, y     [rows…, width], strided; for columns [columns…, width], the columns side by side
//
// Computed in A (float, double for f64) and rounded once. There are four forms:
//   held      Team neighbouring threads hold a row in registers: one read and one exponential an element
//   looped    a block does a row and reads it twice
//   parts     several blocks do a row: the first kernel writes their states, the second the values
//   columns   a thread has Vec columns, and Team rows of threads take the elements of a column in turns; x is read twice
#pragma once

#include "common/convert.cuh"
#include "kernels/softmax/softmax.h"
#include "reduce/reduce.cuh"

/// The result for one value of a row with state s. NaN in a row with an infinite value.
template <class A, bool Log> struct Scale {
  A top, factor;
  __device__ __forceinline__ explicit Scale(const LogSumExp<A>& s) : top(s.top) {
    factor = Log ? log(s.total) : A(1) / s.total;
    if (top == A(__int_as_float(0x7f800000))) factor = A(__int_as_float(0x7fc00000));
  }
  __device__ __forceinline__ A operator()(A x) const { return Log ? x - top - factor : exp(x - top) * factor; }
};

/// Adds n of the values to a state, and rescales it once.
template <class A, int Vec, class T>
__device__ __forceinline__ void add_all(LogSumExp<A>& s, const Vector<T, Vec>& x, u32 n) {
  A top = s.top;
#pragma unroll
  for (int e = 0; e < Vec; ++e)
    if (e < n) top = smelt_expr::nan_max(top, widened<A>(x.at[e]));
  A total = s.top == top ? s.total : s.total * exp(s.top - top);
#pragma unroll
  for (int e = 0; e < Vec; ++e)
    if (e < n) total += widened<A>(x.at[e]) == top ? A(1) : exp(widened<A>(x.at[e]) - top);
  s.top = top, s.total = total;
}

template <bool Log, int Vec, int Team, int Rows, int Held, class T, class A, int Rank>
__device__ __forceinline__ void softmax_held(const SoftmaxArgs<T, LogSumExp<A>, Rank>& a) {
  __shared__ alignas(16) unsigned char exchange[sizeof(LogSumExp<A>) * (Rows * Team / 32)];
  const u32 number = blockIdx.x * Rows + threadIdx.x / Team, lane = threadIdx.x % Team, width = a.width;
  const bool inside = number < a.rows.chunks;
  i64 at[2];
  a.rows.template locate<1>(inside ? number : 0, at);
  Vector<T, Vec> v[Held];                                                   // (Held, Vec) of the row
#pragma unroll
  for (int h = 0; h < Held; ++h) {
    const u32 column = (h * Team + lane) * Vec;
    if (inside && column < width) v[h] = *reinterpret_cast<const Vector<T, Vec>*>(a.x + at[0] + column);
  }
  LogSumExp<A> s;
#pragma unroll
  for (int h = 0; h < Held; ++h) {
    if (!inside || (h * Team + lane) * Vec >= width) break;
#pragma unroll
    for (int e = 0; e < Vec; ++e) s.top = smelt_expr::nan_max(s.top, widened<A>(v[h].at[e]));
  }
  A power[Held][Vec];                                                       // exp(x - this thread's top)
#pragma unroll
  for (int h = 0; h < Held; ++h) {
    if (!inside || (h * Team + lane) * Vec >= width) break;
#pragma unroll
    for (int e = 0; e < Vec; ++e) {
      const A value = widened<A>(v[h].at[e]);
      power[h][e] = value == s.top ? A(1) : exp(value - s.top);
      s.total += power[h][e];
    }
  }
  const A own = s.top;
  s = fold_team<Team>(s, reinterpret_cast<LogSumExp<A>*>(exchange), Merge());
  const Scale<A, Log> scale(s);
  const A factor = exp(own - s.top) * scale.factor;
#pragma unroll
  for (int h = 0; h < Held; ++h) {
    const u32 column = (h * Team + lane) * Vec;
    if (!inside || column >= width) break;
    Vector<T, Vec> out;                                                     // (Vec)
#pragma unroll
    for (int e = 0; e < Vec; ++e) out.at[e] = narrowed<T>(Log ? scale(widened<A>(v[h].at[e])) : power[h][e] * factor);
    *reinterpret_cast<Vector<T, Vec>*>(a.y + at[1] + column) = out;
  }
}

/// Where chunk c of a row begins: vectors lie side by side.
template <int Vec> __device__ __forceinline__ i64 chunk_at(u32 c, i64 stride) {
  return Vec > 1 ? static_cast<i64>(c) * Vec : static_cast<i64>(c) * stride;
}

/// The state of a part (chunks of Vec elements) of a row, by the whole block; every thread gets it.
template <class A, int Vec, int Threads, class T>
__device__ __forceinline__ LogSumExp<A> state_of(const T* x, i64 stride, u32 width, const Part& part) {
  __shared__ alignas(16) unsigned char exchange[sizeof(LogSumExp<A>) * (Threads / 32)];
  LogSumExp<A> s;
#pragma unroll 4
  for (u32 c = part.begin + threadIdx.x; c < part.end; c += Threads) {
    Vector<T, Vec> v;                                                       // (Vec)
    load<(Vec > 1 ? 1 : -1)>(v, x, chunk_at<Vec>(c, stride), stride, width - c * Vec);
    add_all<A>(s, v, width - c * Vec);
  }
  return fold_team<Threads>(s, reinterpret_cast<LogSumExp<A>*>(exchange), Merge());
}

template <int Vec, int Threads, class S, class T>
__device__ __forceinline__ void write_all(const T* x, T* y, i64 from, i64 to, u32 width, const Part& part, const S& scale) {
#pragma unroll 4
  for (u32 c = part.begin + threadIdx.x; c < part.end; c += Threads) {
    Vector<T, Vec> v;                                                       // (Vec)
    load<(Vec > 1 ? 1 : -1)>(v, x, chunk_at<Vec>(c, from), from, width - c * Vec);
#pragma unroll
    for (int e = 0; e < Vec; ++e) v.at[e] = narrowed<T>(scale(widened<decltype(scale.top)>(v.at[e])));
    store<(Vec > 1 ? 1 : -1)>(y, chunk_at<Vec>(c, to), to, width - c * Vec, v);
  }
}

template <bool Log, int Vec, int Threads, class T, class A, int Rank>
__device__ __forceinline__ void softmax_looped(const SoftmaxArgs<T, LogSumExp<A>, Rank>& a) {
  i64 at[2];
  a.rows.template locate<1>(blockIdx.x, at);
  const Part all((a.width + Vec - 1) / Vec, 0, 1);
  const Scale<A, Log> scale(state_of<A, Vec, Threads>(a.x + at[0], a.from, a.width, all));
  write_all<Vec, Threads>(a.x + at[0], a.y + at[1], a.from, a.to, a.width, all, scale);
}

template <int Vec, int Threads, class T, class A, int Rank>
__device__ __forceinline__ void softmax_parts(const SoftmaxArgs<T, LogSumExp<A>, Rank>& a) {
  i64 at[2];
  a.rows.template locate<1>(blockIdx.x, at);
  const Part part((a.width + Vec - 1) / Vec, blockIdx.y, gridDim.y);
  const LogSumExp<A> s = state_of<A, Vec, Threads>(a.x + at[0], a.from, a.width, part);
  if (threadIdx.x == 0) a.parts[static_cast<u64>(blockIdx.x) * gridDim.y + blockIdx.y] = s;
}

template <bool Log, int Vec, int Threads, class T, class A, int Rank>
__device__ __forceinline__ void softmax_from_parts(const SoftmaxArgs<T, LogSumExp<A>, Rank>& a) {
  i64 at[2];
  a.rows.template locate<1>(blockIdx.x, at);
  LogSumExp<A> s;                                                           // the same in every warp
  for (u32 i = threadIdx.x % 32; i < gridDim.y; i += 32) s.merge(a.parts[static_cast<u64>(blockIdx.x) * gridDim.y + i]);
  s = fold_lanes(s, Merge());
  const Part part((a.width + Vec - 1) / Vec, blockIdx.y, gridDim.y);
  write_all<Vec, Threads>(a.x + at[0], a.y + at[1], a.from, a.to, a.width, part, Scale<A, Log>(s));
}

template <bool Log, int Vec, int Step, int Side, int Team, class T, class A, int Rank>
__device__ __forceinline__ void softmax_columns(const SoftmaxArgs<T, LogSumExp<A>, Rank>& a) {
  const Walk<Rank, 2>& columns = a.rows;
  __shared__ alignas(16) unsigned char memory[sizeof(LogSumExp<A>) * Side * Team * Vec];
  auto* exchange = reinterpret_cast<LogSumExp<A>*>(memory);
  const u32 own = blockIdx.x * Side + threadIdx.x % Side, member = threadIdx.x / Side;
  const bool inside = own < columns.chunks;
  i64 at[2];
  const u32 n = columns.template locate<Vec>(inside ? own : 0, at);
  LogSumExp<A> s[Vec];                                                      // (Vec) of the columns
  if (inside) {
#pragma unroll 4
    for (u32 i = member; i < a.width; i += Team) {
      Vector<T, Vec> v;                                                     // (Vec)
      load<Step>(v, a.x, at[0] + i * a.from, columns.strides[0][Rank - 1], n);
#pragma unroll
      for (int e = 0; e < Vec; ++e)
        if (e < n) s[e].add(widened<A>(v.at[e]), 0);
    }
  }
  merge_rows<Side, Team, Vec>(s, exchange);
  __syncthreads();
  if (member == 0)
#pragma unroll
    for (int e = 0; e < Vec; ++e) exchange[e * Side + threadIdx.x] = s[e];
  __syncthreads();
  if (!inside) return;
#pragma unroll
  for (int e = 0; e < Vec; ++e) s[e] = exchange[e * Side + threadIdx.x % Side];
#pragma unroll 4
  for (u32 i = member; i < a.width; i += Team) {
    Vector<T, Vec> v;                                                       // (Vec)
    load<Step>(v, a.x, at[0] + i * a.from, columns.strides[0][Rank - 1], n);
#pragma unroll
    for (int e = 0; e < Vec; ++e)
      if (e < n) v.at[e] = narrowed<T>(Scale<A, Log>(s[e])(widened<A>(v.at[e])));
    store<Step>(a.y, at[1] + i * a.to, columns.strides[1][Rank - 1], n, v);
  }
}
