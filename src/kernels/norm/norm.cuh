// Normalisation of rows, each held in registers by the threads that share it.
//
//   s = x + residual                              rounded to x's type and written to `sum`, where there is a residual
//   y = Program(n, operands…)                     n = (s - mean(s)) * rsqrt(mean((s - mean(s))^2) + epsilon)   centred: LayerNorm
//                                                 n = s * rsqrt(mean(s^2) + epsilon)                           not: RMSNorm
//
//   x, residual, sum, y    [rows…, Width], the elements of a row side by side
//   operands               [rows…, Width] broadcast: gamma, beta and what follows the normalisation
//
// Accumulates in float. Threads threads hold Held vectors of Vec elements each; Rows rows a block. A row is read once and held,
// or read again for y (HeldRow::read): the cache has it still, and gives it up for what is written.
#pragma once

#include "common/expr.cuh"
#include "common/keep.cuh"
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
  template <Keep K, class T> static __device__ __forceinline__ void load_all(Vector<T, Vec> (&raw)[Held], const T* row) {
#pragma unroll
    for (int h = 0; h < Held; ++h)
      raw[h] = load_keeping<K>(reinterpret_cast<const Vector<T, Vec>*>(row + (column(h) < Width ? column(h) : 0)));
  }
  template <Keep K, class T> __device__ __forceinline__ void read(const T* row) {
    Vector<T, Vec> raw[Held];
    load_all<K>(raw, row);
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) v[h][e] = column(h) < Width ? f32(raw[h].at[e]) : 0.f;
  }
  /// Adds another row, rounds to T and writes the sum where there is a place for it.
  template <Keep Read, Keep Write, class T> __device__ __forceinline__ void add(const T* row, T* sum, bool inside) {
    Vector<T, Vec> raw[Held];
    load_all<Read>(raw, row);
#pragma unroll
    for (int h = 0; h < Held; ++h) {
#pragma unroll
      for (int e = 0; e < Vec; ++e) {
        raw[h].at[e] = From<T>::f32(v[h][e] + f32(raw[h].at[e]));
        v[h][e] = column(h) < Width ? f32(raw[h].at[e]) : 0.f;
      }
      if (sum && inside && column(h) < Width)
        store_keeping<Write>(reinterpret_cast<Vector<T, Vec>*>(sum + column(h)), raw[h]);
    }
  }
  template <Keep K, class T> __device__ __forceinline__ void copy(T* to, bool inside) const {
#pragma unroll
    for (int h = 0; h < Held; ++h) {
      Vector<T, Vec> raw;
#pragma unroll
      for (int e = 0; e < Vec; ++e) raw.at[e] = From<T>::f32(v[h][e]);
      if (inside && column(h) < Width) store_keeping<K>(reinterpret_cast<Vector<T, Vec>*>(to + column(h)), raw);
    }
  }
  /// Of the row in v.
  template <bool Centred> __device__ __forceinline__ Statistics statistics(float epsilon) const {
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
    return {mean, rsqrtf(row_sum<Threads, Rows>(squares, exchange[1]) / Width + epsilon)};
  }
  /// v becomes n.
  __device__ __forceinline__ void normalize(const Statistics& s) {
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) v[h][e] = (v[h][e] - s.mean) * s.factor;
  }
};
