// An element as the type that it is computed in, and back.
#pragma once

#include "common/types.cuh"

template <class A, class B> constexpr bool is_same_type = false;
template <class A> constexpr bool is_same_type<A, A> = true;
template <class T> constexpr bool is_half = is_same_type<T, f16> || is_same_type<T, bf16>;
template <class T> constexpr bool is_real = is_half<T> || is_same_type<T, float> || is_same_type<T, double>;

/// x as an A; exact where A holds every T.
template <class A, class T> __device__ __forceinline__ A widened(T x) {
  if constexpr (is_half<T>) return static_cast<A>(f32(x));
  else return static_cast<A>(x);
}
/// x as a T, rounded once.
template <class T, class A> __device__ __forceinline__ T narrowed(A x) {
  if constexpr (is_same_type<T, f16>) return f16_of(x);
  else if constexpr (is_same_type<T, bf16>) return bf16_of(x);
  else return static_cast<T>(x);
}
