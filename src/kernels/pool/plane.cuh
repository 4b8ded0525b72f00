// Pooling over whole planes: each output is the fold of all elements of its channel.
//
//   y[n, c] = fold over p of x[n, c, p]
//
//   x    [N, C, P], with one stride along P. Last: channels are contiguous, and a thread folds Vec of them; else an access loads
//        Vec elements of P, which is contiguous where Vec > 1
//
// Parts threads share the plane of one output (Last: of Vec outputs); a block has Outs such groups. The folds of a group are
// joined in a fixed order.
//
// Launch: blocks of Outs * Parts threads.
#pragma once

#include "kernels/pool/plane.h"
#include "pool/fold.cuh"

template <Pool Kind, bool Last, int Vec, int Outs, int Parts, class T>
__device__ __forceinline__ void pool_planes(const PoolPlaneArgs<T>& a) {
  using W = wide_t<T>;
  constexpr int made = Last ? Vec : 1;                                      // outputs of a group
  __shared__ W exchange[Parts][Outs][made];                                 // (Parts, Outs, made)
  const int slot = Last ? threadIdx.x % Outs : threadIdx.x / Parts, part = Last ? threadIdx.x / Outs : threadIdx.x % Parts;
  const u32 output = blockIdx.x * Outs + slot;
  const bool inside = output < a.outputs;
  const i64 n = a.channels.quotient(output), c = (output - n * a.channels.divisor) * (Last ? Vec : 1);
  const i64 step = a.from[2] * (Last ? 1 : Vec);
  W sum[Vec];                                                               // (Vec)
#pragma unroll
  for (int e = 0; e < Vec; ++e) sum[e] = nothing<Kind, T>();
  if (inside) {
    const T* plane = a.x + n * a.from[0] + c * a.from[1];                   // [P]
#pragma unroll 4
    for (int p = part; p < a.pixels; p += Parts) {
      const Vector<T, Vec> v = *reinterpret_cast<const Vector<T, Vec>*>(plane + p * step);
#pragma unroll
      for (int e = 0; e < Vec; ++e) fold<Kind>(sum[e], widened<W>(v.at[e]));
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
  for (int e = 0; e < made; ++e) out.at[e] = narrowed<T>(Kind == Pool::max ? sum[e] : sum[e] / static_cast<W>(a.elements));
  *reinterpret_cast<Vector<T, made>*>(a.y + n * a.to[0] + c * a.to[1]) = out;
}
