// Softmax of 8-bit integers along the innermost axis, between their scales:
//
//   v = (x - x_zero) · x_scale
//   p = exp(v - top) / Σ exp(v - top)          top: the largest v of the row
//   y = round(p / y_scale) + y_zero            to the nearest, ties to even; saturated
//
//   x, y     [rows…, width] of u8 or i8, elements of a row side by side
//
// As the model has it, in floats that no memory sees: a byte is read and a byte written. Team neighbouring threads have a row, by Vec
// elements at a time, which they read three times: from the L1 cache but for the first.
//
// Launch: Rows · Team threads, Rows rows a block.
#pragma once

#include "common/types.cuh"
#include "common/warp.cuh"
#include "kernels/softmax/quantized.h"
#include "pointwise/walk.cuh"

struct Larger {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Y> __device__ __forceinline__ Y quantized_as(float p, float scale, float zero) {
  constexpr float low = Y(-1) < Y(0) ? -128.f : 0.f, high = Y(-1) < Y(0) ? 127.f : 255.f;
  return static_cast<Y>(static_cast<int>(fminf(fmaxf(rintf(p / scale) + zero, low), high)));
}

template <int Vec, int Team, int Rows, class X, class Y, int Rank>
__device__ __forceinline__ void softmax_quantized(const QuantizedSoftmaxArgs<X, Y, Rank>& a) {
  constexpr int warps = Rows * Team / 32 > 0 ? Rows * Team / 32 : 1;
  __shared__ float exchange[2][warps];
  const u32 number = blockIdx.x * Rows + threadIdx.x / Team, lane = threadIdx.x % Team;
  const bool inside = number < a.rows.chunks;
  i64 at[2];
  a.rows.template locate<1>(inside ? number : 0, at);
  const u32 end = inside ? a.width / Vec : 0;                               // vectors: Vec divides the width
  const auto* const from = reinterpret_cast<const Vector<X, Vec>*>(a.x + at[0]);
  const int zero = a.x_zero ? static_cast<int>(*a.x_zero) : 0;
  const float scale = *a.x_scale, y_scale = *a.y_scale, y_zero = a.y_zero ? static_cast<float>(*a.y_zero) : 0.f;
  const auto value = [&](X x) { return __fmul_rn(static_cast<float>(static_cast<int>(x) - zero), scale); };

  float top = __int_as_float(0xff800000);
#pragma unroll 4
  for (u32 c = lane; c < end; c += Team) {
    const Vector<X, Vec> v = from[c];                                       // (Vec)
#pragma unroll
    for (int e = 0; e < Vec; ++e) top = fmaxf(top, value(v.at[e]));
  }
  top = fold_team<Team>(top, exchange[0], Larger());
  float total = 0;
#pragma unroll 4
  for (u32 c = lane; c < end; c += Team) {
    const Vector<X, Vec> v = from[c];                                       // (Vec)
#pragma unroll
    for (int e = 0; e < Vec; ++e) total += expf(value(v.at[e]) - top);
  }
  total = fold_team<Team>(total, exchange[1], Plus());
  const float factor = 1.f / total;
  auto* const to = reinterpret_cast<Vector<Y, Vec>*>(a.y + at[1]);
#pragma unroll 4
  for (u32 c = lane; c < end; c += Team) {
    const Vector<X, Vec> v = from[c];                                       // (Vec)
    Vector<Y, Vec> out;                                                     // (Vec)
#pragma unroll
    for (int e = 0; e < Vec; ++e) out.at[e] = quantized_as<Y>(expf(value(v.at[e]) - top) * factor, y_scale, y_zero);
    to[c] = out;
  }
}
