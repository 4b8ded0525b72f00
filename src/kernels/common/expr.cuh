// The functions that the code of functions.def calls besides CUDA's mathematical ones; functions.def says what they compute.
#pragma once

#include "common/types.cuh"

namespace smelt_expr {
template <class T> __device__ __forceinline__ T pick(bool c, T a, T b) { return c ? a : b; }
__device__ __forceinline__ unsigned int abs(unsigned int a) { return a; }
__device__ __forceinline__ unsigned long long abs(unsigned long long a) { return a; }
template <class T> __device__ __forceinline__ T nan_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ __forceinline__ T nan_max(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float quotient(float a, float b) { return a / b; }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
  return T(a / b);
}
__device__ __forceinline__ float trunc_mod(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double trunc_mod(double a, double b) { return fmod(a, b); }
template <class T> __device__ __forceinline__ T trunc_mod(T a, T b) {
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
template <class T> __device__ __forceinline__ T floor_mod(T a, T b) {
  const T r = trunc_mod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}
__device__ __forceinline__ float power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double power(double a, double b) { return pow(a, b); }
template <class T> __device__ __forceinline__ T power(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & T(1) ? T(-1) : T(1)) : T(0);
  T r = T(1);
  for (; b != T(0); b = T(b >> 1), a = T(a * a))
    if (b & T(1)) r = T(r * a);
  return r;
}
template <class T> __device__ __forceinline__ T shifted_left(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : T(a << b); }
template <class T> __device__ __forceinline__ T shifted_right(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : T(a >> b); }
template <class To, class From> __device__ __forceinline__ To saturated(From a, From top, To smallest, To largest) {
  if (a != a) return To(0);
  if (a >= top) return largest;
  return a <= From(smallest) ? smallest : To(a);
}
}
