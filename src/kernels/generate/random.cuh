// Random numbers, other ones at each run: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) of the place, the run and a seed, so that
// they depend on no order of threads. Normal ones by Box and Muller's transformation of pairs.
//
// Launch: a thread for each four numbers, two of 64 bits; then one that counts the run.
#pragma once

#include "common/convert.cuh"
#include "kernels/generate/random.h"

constexpr int random_threads = 256;

struct RandomWords {
  u32 at[4];
};

__device__ __forceinline__ RandomWords philox(u64 place, u64 run, u64 seed) {
  u32 c[4] = {static_cast<u32>(place), static_cast<u32>(place >> 32), static_cast<u32>(run), static_cast<u32>(run >> 32)};
  u32 k[2] = {static_cast<u32>(seed), static_cast<u32>(seed >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = __umulhi(0xd2511f53u, c[0]), low0 = 0xd2511f53u * c[0], high1 = __umulhi(0xcd9e8d57u, c[2]),
              low1 = 0xcd9e8d57u * c[2];
    c[0] = high1 ^ c[1] ^ k[0], c[1] = low1, c[2] = high0 ^ c[3] ^ k[1], c[3] = low0;
    k[0] += 0x9e3779b9u, k[1] += 0xbb67ae85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

/// In [0, 1), as fine as A is.
template <class A> struct RandomUnits;
template <> struct RandomUnits<float> {
  static constexpr int count = 4;
  static __device__ __forceinline__ float at(const RandomWords& w, int i) { return static_cast<float>(w.at[i] >> 8) * 0x1p-24f; }
};
template <> struct RandomUnits<double> {
  static constexpr int count = 2;
  static __device__ __forceinline__ double at(const RandomWords& w, int i) {
    const u64 both = static_cast<u64>(w.at[2 * i]) << 32 | w.at[2 * i + 1];
    return static_cast<double>(both >> 11) * 0x1p-53;
  }
};

__device__ __forceinline__ void normal_pair(float a, float b, float& x, float& y) {
  const float r = sqrtf(-2.f * logf(1.f - a));                              // 1 - a: not 0
  sincospif(2.f * b, &x, &y);
  x *= r, y *= r;
}
__device__ __forceinline__ void normal_pair(double a, double b, double& x, double& y) {
  const double r = sqrt(-2. * log(1. - a));
  sincospi(2. * b, &x, &y);
  x *= r, y *= r;
}

template <bool Normal, class A, class T> __device__ __forceinline__ void draw(const RandomArgs<T>& a) {
  constexpr int each = RandomUnits<A>::count;
  const u32 group = blockIdx.x * static_cast<u32>(random_threads) + threadIdx.x;
  if (static_cast<u64>(group) * each >= a.count) return;
  const RandomWords words = philox(group, a.state[0], a.state[1]);
  A v[each];
#pragma unroll
  for (int i = 0; i < each; ++i) v[i] = RandomUnits<A>::at(words, i);
  const A first = static_cast<A>(a.first), second = static_cast<A>(a.second);
#pragma unroll
  for (int i = 0; i < each; i += 2) {
    if (Normal) normal_pair(v[i], v[i + 1], v[i], v[i + 1]);
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const u32 at = group * each + i;
    if (at < a.count) a.y[at] = narrowed<T>(Normal ? first + second * v[i] : first + (second - first) * v[i]);
  }
}

template <class T> __device__ __forceinline__ void count_run(const RandomArgs<T>& a) { a.state[0] += 1; }
