// Normalisation of groups of elements whose rows are not one run of memory, or too long for the registers of one block: channels
// of an image in groups, whichever way the image lies.
//
//   x, y         Lines lines of Bundle groups side by side, each group's part of a line Length elements:
//                plain images           a line is a channel (or the whole group), Bundle 1
//                channels-last images   a line is a pixel; Bundle groups are taken together, so that accesses of Vec elements
//                                       fill a line where one group's part would not
//   moments      of each group: the mean, and the sum of squared differences from it
//
// A thread holds Held vectors of Vec elements; Threads * Held vectors are a part of the bundle: one block's. Where a bundle is
// several parts, each one's own moments are merged (T. Chan, G. Golub, R. LeVeque, "Algorithms for computing the sample
// variance", 1983, equations 2.1), through the cluster's shared memory or a workspace; every sum in the same order each time.
#pragma once

#include "common/cluster.cuh"
#include "common/expr.cuh"
#include "pointwise/walk.cuh"

struct alignas(8) Moments {
  float mean, squares;
};

__device__ __forceinline__ float over_warp(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

/// By a whole warp: of `parts` parts with `whole` elements of a group each, the last one with what is left of `total`.
template <class At> __device__ __forceinline__ Moments merged(int parts, float whole, float total, const At& at) {
  const int lane = threadIdx.x % 32;
  const float last = total - (parts - 1) * whole;
  float sum = 0, squares = 0;
  for (int p = lane; p < parts; p += 32) sum += at(p).mean * (p + 1 < parts ? whole : last);
  const float mean = over_warp(sum) / total;
  for (int p = lane; p < parts; p += 32) {
    const Moments one = at(p);
    const float d = one.mean - mean;
    squares += one.squares + d * d * (p + 1 < parts ? whole : last);
  }
  return {mean, over_warp(squares)};
}

template <class T, int Lines, int Length, int Bundle, int Vec, int Threads, int Held> struct GroupTile {
  static constexpr int in_line = Bundle * Length / Vec;                  // vectors
  static constexpr int vectors = Lines * in_line;                        // of the bundle
  static constexpr int part_vectors = Threads * Held;
  static constexpr int parts = (vectors + part_vectors - 1) / part_vectors;
  static constexpr bool own_column = Threads % in_line == 0;             // a thread's vectors lie below one another
  static constexpr float whole = float(part_vectors) * Vec / Bundle;     // elements of a group in a part
  static constexpr float total = float(Lines) * Length;
  static_assert(Bundle == 1 || own_column, "each part of several groups has whole lines");

  Vector<T, Vec> raw[Held];
  u32 first;                                                             // vector of the bundle that raw[0] is

  __device__ __forceinline__ explicit GroupTile(u32 part) : first(part * part_vectors + threadIdx.x) {}
  __device__ __forceinline__ bool inside(int h) const { return vectors % part_vectors == 0 || first + h * Threads < vectors; }
  __device__ __forceinline__ u32 line(int h) const {
    return own_column ? first / in_line + h * (Threads / in_line) : (first + h * Threads) / in_line;
  }
  /// The first element of the vector in its line.
  __device__ __forceinline__ u32 column(int h) const {
    return (own_column ? threadIdx.x % in_line : (first + h * Threads) % in_line) * Vec;
  }
  /// at(line): where a line of x begins.
  template <class At> __device__ __forceinline__ void read(const T* x, const At& at) {
    // Never a branch: all loads are on their way before the first is waited for. What is outside reads the first line.
#pragma unroll
    for (int h = 0; h < Held; ++h)
      raw[h] = *reinterpret_cast<const Vector<T, Vec>*>(x + at(inside(h) ? line(h) : 0) + column(h));
  }

  /// The part's own moments of each group, in shared memory: `result`. All threads come here.
  __device__ __forceinline__ void moments(float share, Moments* result) const {
    __shared__ float exchange[Bundle == 1 ? Threads / 32 : Threads * Vec];
    float sums[Vec] = {};
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) sums[e] += inside(h) ? f32(raw[h].at[e]) : 0.f;
    group_sums(sums, exchange, [&](int g, float sum) { result[g].mean = sum / share; });
    float means[Vec];
#pragma unroll
    for (int e = 0; e < Vec; ++e) means[e] = result[group(e)].mean, sums[e] = 0;
#pragma unroll
    for (int h = 0; h < Held; ++h)
#pragma unroll
      for (int e = 0; e < Vec; ++e) {
        const float d = f32(raw[h].at[e]) - means[e];
        sums[e] += inside(h) ? d * d : 0.f;
      }
    group_sums(sums, exchange, [&](int g, float sum) { result[g].squares = sum; });
  }
  /// Elements of a group in this part.
  static __device__ __forceinline__ float share(u32 part) { return part + 1 < parts ? whole : total - (parts - 1) * whole; }
  /// Of element e of every vector of this thread.
  static __device__ __forceinline__ int group(int e) { return Bundle == 1 ? 0 : (threadIdx.x % in_line * Vec + e) / Length; }

  /// result[g] for every group, from what at(group, part) gives of each part; visible to all threads afterwards.
  template <class At> static __device__ __forceinline__ void merge(Moments* result, const At& at) {
    constexpr int warps = Threads / 32;
    const int warp = threadIdx.x / 32;
    for (int g = warp; g < Bundle && warp < warps; g += warps) {
      const Moments m = merged(parts, whole, total, [&](int part) { return at(g, part); });
      if (threadIdx.x % 32 == 0) result[g] = m;
    }
    __syncthreads();
  }

 private:
  /// Adds up each group's elements over the block's threads, always in the same order; done(group, sum) once for each. What it
  /// wrote is visible to all threads afterwards.
  template <class Done>
  static __device__ __forceinline__ void group_sums(const float (&sums)[Vec], float* exchange, const Done& done) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int warps = Threads / 32;
    if constexpr (Bundle == 1) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < Vec; ++e) sum += sums[e];
      sum = over_warp(sum);
      if (lane == 0) exchange[warp] = sum;
      __syncthreads();
      if (warp == 0) {
        sum = over_warp(lane < warps ? exchange[lane] : 0.f);
        if (lane == 0) done(0, sum);
      }
    } else {
      constexpr int lines = Threads / in_line;                           // exchange [lines, Bundle * Length]
#pragma unroll
      for (int e = 0; e < Vec; ++e) exchange[threadIdx.x * Vec + e] = sums[e];
      __syncthreads();
      for (int g = warp; g < Bundle && warp < warps; g += warps) {
        float sum = 0;
#pragma unroll 4
        for (int i = lane; i < lines * Length; i += 32) sum += exchange[i / Length * (Bundle * Length) + g * Length + i % Length];
        sum = over_warp(sum);
        if (lane == 0) done(g, sum);
      }
    }
    __syncthreads();
  }
};

/// What an element is multiplied by after the mean is taken off.
template <bool Centred> __device__ __forceinline__ float factor_of(const Moments& m, float total, float epsilon) {
  return rsqrtf((Centred ? m.squares / total : m.squares / total + m.mean * m.mean) + epsilon);
}
