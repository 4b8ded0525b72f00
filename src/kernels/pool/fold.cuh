// What poolings fold: the largest element, or a sum that the mean divides.
#pragma once

#include "common/types.cuh"

enum class Pool { max, mean, mean_inside };   // mean counts padding, mean_inside does not

/// What elements are folded in: float for halves and floats, double for doubles, int for bytes.
template <class T> struct Wide { using Type = float; };
template <> struct Wide<double> { using Type = double; };
template <> struct Wide<i8> { using Type = int; };
template <> struct Wide<u8> { using Type = int; };
template <class T> using wide_t = typename Wide<T>::Type;

__device__ __forceinline__ double widened(double x) { return x; }
__device__ __forceinline__ int widened(i8 x) { return x; }
__device__ __forceinline__ int widened(u8 x) { return x; }
template <class T> __device__ __forceinline__ float widened(T x) { return f32(x); }

__device__ __forceinline__ void narrow(float x, f16& y) { y = f16_of(x); }
__device__ __forceinline__ void narrow(float x, bf16& y) { y = bf16_of(x); }
template <class W, class T> __device__ __forceinline__ void narrow(W x, T& y) { y = static_cast<T>(x); }

/// What a fold begins with; a maximum over nothing is the lowest number of the type.
template <Pool Kind, class T> __device__ __forceinline__ wide_t<T> nothing() {
  if constexpr (Kind != Pool::max) return 0;
  else if constexpr (sizeof(T) == 1) return T(-1) < T(0) ? -128 : 0;
  else return static_cast<wide_t<T>>(__int_as_float(0xff800000));
}

/// Whether x takes the place of the maximum so far: the first of equals stays, and so does a NaN.
template <class W> __device__ __forceinline__ bool replaces(W x, W best) { return x > best || x != x; }

template <Pool Kind, class W> __device__ __forceinline__ void fold(W& sum, W x) {
  if constexpr (Kind == Pool::max) sum = replaces(x, sum) ? x : sum;
  else sum += x;
}
