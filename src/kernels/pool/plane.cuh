// Pooling over whole planes: each output is the fold of all elements of its channel.
//
//   y[n, c] = fold over p of x[n, c, p]
//
//   x    [N, C, P], P's elements one stride apart: Last: C's side by side, Vec of them a thread; else P's, Vec of them an access
//
// A block makes Outs threads' outputs, each shared by Parts threads, whose folds are joined in a fixed order.
#pragma once

#include "kernels/pool/plane.h"
#include "pool/fold.cuh"

template <class T, Pool Kind, bool Last, int Vec, int Outs, int Parts>
__device__ __forceinline__ void pool_planes(const T* x, T* y, const PlaneGeometry& g) {
  using W = wide_t<T>;
  constexpr int made = Last ? Vec : 1;
  __shared__ W exchange[Parts][Outs][made];
  const int slot = Last ? threadIdx.x % Outs : threadIdx.x / Parts, part = Last ? threadIdx.x / Outs : threadIdx.x % Parts;
  const u32 output = blockIdx.x * Outs + slot;
  const bool inside = output < g.outputs;
  const i64 n = g.channels.quotient(output), c = (output - n * g.channels.divisor) * (Last ? Vec : 1);
  const i64 step = g.from[2] * (Last ? 1 : Vec);
  W sum[Vec];                                                               // (Vec)
#pragma unroll
  for (int e = 0; e < Vec; ++e) sum[e] = nothing<Kind, T>();
  if (inside) {
    const T* plane = x + n * g.from[0] + c * g.from[1];                     // [P]
#pragma unroll 4
    for (int p = part; p < g.pixels; p += Parts) {
      const Vector<T, Vec> v = *reinterpret_cast<const Vector<T, Vec>*>(plane + p * step);
#pragma unroll
      for (int e = 0; e < Vec; ++e) fold<Kind>(sum[e], W(widened(v.at[e])));
    }
  }
  if constexpr (!Last) {
#pragma unroll
    for (int e = 1; e < Vec; ++e) fold<Kind>(sum[0], sum[e]);
  }
#pragma unroll
  for (int e = 0; e < made; ++e) exchange[part][slot][e] = sum[e];
#pragma unroll
  for (int other = Parts / 2; other > 0; other /= 2) {
    __syncthreads();
    if (part < other) {
#pragma unroll
      for (int e = 0; e < made; ++e) {
        fold<Kind>(sum[e], exchange[part + other][slot][e]);
        exchange[part][slot][e] = sum[e];
      }
    }
  }
  if (part != 0 || !inside) return;
  Vector<T, made> out;                                                      // (made)
#pragma unroll
  for (int e = 0; e < made; ++e) narrow(Kind == Pool::max ? sum[e] : sum[e] / static_cast<W>(g.elements), out.at[e]);
  *reinterpret_cast<Vector<T, made>*>(y + n * g.to[0] + c * g.to[1]) = out;
}
