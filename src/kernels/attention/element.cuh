// Elements of any floating-point type, in the type that is computed in: double for double, float for the others.
#pragma once

#include "common/types.cuh"

template <class T> struct Computing { using type = float; };
template <> struct Computing<double> { using type = double; };

__device__ __forceinline__ double widened(double x) { return x; }
template <class T> __device__ __forceinline__ float widened(T x) { return f32(x); }

/// T of a float or double, rounded once.
template <class T, class C> __device__ __forceinline__ void narrow(T& to, C x) { to = static_cast<T>(x); }
template <class C> __device__ __forceinline__ void narrow(f16& to, C x) { to = f16_of(x); }
template <class C> __device__ __forceinline__ void narrow(bf16& to, C x) { to = bf16_of(x); }
