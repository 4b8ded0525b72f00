// Normalisation of rows, each held in registers by the threads that share it.
//
//   s = x + residual                              rounded to x's type and written to `sum`, where there is a residual
//   y = Program(n, operands…)                     n = (s - mean(s)) * rsqrt(mean((s - mean(s))^2) + epsilon)   centred: LayerNorm
//                                                 n = s * rsqrt(mean(s^2) + epsilon)                           not: RMSNorm
//
//   x, residual, sum, y    [rows…, Width], the elements of a row side by side
//   operands               [rows…, Width] broadcast: gamma, beta and what follows the normalisation
//
// Accumulates in float; x is read once, y written once. Threads threads hold Held vectors of Vec elements each; Rows rows a
// block.
#pragma once

#include "common/expr.cuh"
#include "norm/rows.cuh"
#include "pointwise/walk.cuh"

struct Statistics {
  float mean, factor;                                                       // mean 0 where it is not taken off
};

template <int Width, int Vec, int Threads, int Rows, int Held> struct HeldRow {
  float v[Held][Vec];                                                       // (Held, Vec) of the row's Width elements

  static __device__ __forceinline__ int lane() { return threadIdx.x % Threads; }
  static __device__ __forceinline__ int column(int h) { return (h * Threads + lane()) * Vec; }
  /// Every access is issued before the first is used, so Held loads are in flight: never a branch, what is outside of the row
  /// reads its beginning.
  template <class T> static __device__ __forceinline__ void load_all(Vector<T, Vec> (&raw)[Held], const T* row) {
#pragma unroll
    for (int h = 0; h < Held; ++h) raw[h] = *reinterpret_cast<const Vector<T, Vec>*>(row + (column(h) < Width ? column(h) : 0));
  }
  template <class T> __device__ __forceinline__ void read(const T* row) {
    Vector<T, Vec> raw[Held];
    load_all(raw, row);
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) v[h][e] = column(h) < Width ? f32(raw[h].at[e]) : 0.f;
  }
  /// Adds another row, rounds to T and writes the sum where there is a place for it.
  template <class T> __device__ __forceinline__ void add(const T* row, T* sum, bool inside) {
    Vector<T, Vec> raw[Held];
    load_all(raw, row);
#pragma unroll
    for (int h = 0; h < Held; ++h) {
#pragma unroll
      for (int e = 0; e < Vec; ++e) {
        raw[h].at[e] = From<T>::f32(v[h][e] + f32(raw[h].at[e]));
        v[h][e] = column(h) < Width ? f32(raw[h].at[e]) : 0.f;
      }
      if (sum && inside && column(h) < Width) *reinterpret_cast<Vector<T, Vec>*>(sum + column(h)) = raw[h];
    }
  }
  template <class T> __device__ __forceinline__ void copy(T* to, bool inside) const {
#pragma unroll
    for (int h = 0; h < Held; ++h) {
      Vector<T, Vec> raw;
#pragma unroll
      for (int e = 0; e < Vec; ++e) raw.at[e] = From<T>::f32(v[h][e]);
      if (inside && column(h) < Width) *reinterpret_cast<Vector<T, Vec>*>(to + column(h)) = raw;
    }
  }
  /// v becomes n.
  template <bool Centred> __device__ __forceinline__ Statistics normalize(float epsilon) {
    constexpr int slots = Rows * (Threads < 32 ? 32 : Threads) / 32;
    __shared__ float exchange[2][slots];
    float mean = 0;
    if constexpr (Centred) {
      float sum = 0;
#pragma unroll
      for (int h = 0; h < Held; ++h)
#pragma unroll
        for (int e = 0; e < Vec; ++e) sum += v[h][e];                       // 0 beyond Width
      mean = row_sum<Threads, Rows>(sum, exchange[0]) / Width;
    }
    float squares = 0;
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) {
        const float d = v[h][e] - mean;
        squares += Centred && column(h) >= Width ? 0.f : d * d;
      }
    const float factor = rsqrtf(row_sum<Threads, Rows>(squares, exchange[1]) / Width + epsilon);
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) v[h][e] = (v[h][e] - mean) * factor;
    return {mean, factor};
  }
};
