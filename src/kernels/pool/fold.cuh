// What poolings fold: the largest element, or a sum that the mean divides.
#pragma once

#include "common/convert.cuh"

enum class Pool { max, mean, mean_inside };   // mean counts padding, mean_inside does not

/// The type of a fold: float for halves and floats, double for doubles, int for bytes.
template <class T> struct Wide { using Type = float; };
template <> struct Wide<double> { using Type = double; };
template <> struct Wide<i8> { using Type = int; };
template <> struct Wide<u8> { using Type = int; };
template <class T> using wide_t = typename Wide<T>::Type;

/// The value that a fold begins with: 0, or for a maximum the lowest number of the type.
template <Pool Kind, class T> __device__ __forceinline__ wide_t<T> nothing() {
  if constexpr (Kind != Pool::max) return 0;
  else if constexpr (sizeof(T) == 1) return T(-1) < T(0) ? -128 : 0;
  else return static_cast<wide_t<T>>(__int_as_float(0xff800000));
}

/// Whether x replaces the maximum so far. The first of equal elements stays; a NaN replaces every number and is never replaced
/// by one.
template <class W> __device__ __forceinline__ bool replaces(W x, W best) { return x > best || x != x; }

template <Pool Kind, class W> __device__ __forceinline__ void fold(W& sum, W x) {
  if constexpr (Kind == Pool::max) sum = replaces(x, sum) ? x : sum;
  else sum += x;
}
