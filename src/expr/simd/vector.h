// A register of any number type, in the compiler's own vector form. For *.simd.cpp sources only (isa.h).
#pragma once

#include <type_traits>

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {

template <class T> struct VectorOf { typedef T Type __attribute__((vector_size(sizeof(FloatRegister)))); };
/// As many T as a register holds; arithmetic is element by element, comparisons give all bits or none.
template <class T> using Vector = typename VectorOf<T>::Type;
template <class T> inline constexpr int width = sizeof(FloatRegister) / sizeof(T);
/// The signed integer as wide as T: what a comparison of T gives.
template <class T> using MaskOf = std::conditional_t<sizeof(T) == 8, long long, std::conditional_t<sizeof(T) == 4, int, short>>;

template <class T> SMELT_INLINE Vector<T> load_vector(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T> SMELT_INLINE void store_vector(T* p, Vector<T> v) { __builtin_memcpy(p, &v, sizeof v); }
template <class T> SMELT_INLINE Vector<T> splat_vector(T x) { return x - Vector<T>{}; }  // x - 0 keeps the sign of a zero

/// The lanes half a `group` on, within groups of so many lanes.
template <int group, class T> SMELT_INLINE Vector<T> other_half(Vector<T> v) {
  constexpr int h = group / 2;
  if constexpr (width<T> == 8)
    return __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h, 4 ^ h, 5 ^ h, 6 ^ h, 7 ^ h);
  else if constexpr (width<T> == 4)
    return __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h, 2 ^ h, 3 ^ h);
  else
    return __builtin_shufflevector(v, v, 0 ^ h, 1 ^ h);
}

/// All lanes joined by f, which knows no order: the result in every lane.
template <class T, class F> SMELT_INLINE Vector<T> across(Vector<T> v, F f) {
  if constexpr (width<T> >= 8) v = f(v, other_half<8, T>(v));
  if constexpr (width<T> >= 4) v = f(v, other_half<4, T>(v));
  return f(v, other_half<2, T>(v));
}

/// The larger or the smaller of each pair, where it is a number; else b.
template <bool largest, class T> SMELT_INLINE Vector<T> extreme(Vector<T> a, Vector<T> b) {
#ifdef __AVX2__
  if constexpr (std::is_same_v<T, float>) return largest ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return largest ? _mm256_max_pd(a, b) : _mm256_min_pd(a, b);
#else
  if constexpr (std::is_same_v<T, float>) return largest ? _mm_max_ps(a, b) : _mm_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return largest ? _mm_max_pd(a, b) : _mm_min_pd(a, b);
#endif
  return (largest ? a > b : a < b) ? a : b;
}

}  // namespace smelt::SMELT_ISA
