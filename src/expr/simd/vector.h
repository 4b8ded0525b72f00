// A register of any number type, in the compiler's own vector form. For *.simd.cpp sources only (isa.h).
#pragma once

#include <type_traits>
#include <utility>

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {

template <class T> struct VectorOf { typedef T Type __attribute__((vector_size(sizeof(FloatRegister)))); };
/// As many T as a register holds; arithmetic is element by element, comparisons give all bits or none.
template <class T> using Vector = typename VectorOf<T>::Type;
template <class T> inline constexpr int width = sizeof(FloatRegister) / sizeof(T);
/// The signed integer as wide as T: what a comparison of T gives.
template <class T> using MaskOf =
    std::conditional_t<sizeof(T) == 8, long long,
                       std::conditional_t<sizeof(T) == 4, int, std::conditional_t<sizeof(T) == 2, short, signed char>>>;

template <class T> SMELT_INLINE Vector<T> load_vector(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T> SMELT_INLINE void store_vector(T* p, Vector<T> v) { __builtin_memcpy(p, &v, sizeof v); }
template <class T> SMELT_INLINE Vector<T> splat_vector(T x) { return x - Vector<T>{}; }  // x - 0 keeps the sign of a zero

/// Shuffles of two registers by lane numbers that are computed from each lane's own.
template <class T, int h, int... lane>
SMELT_INLINE Vector<T> own_lanes(Vector<T> a, Vector<T> b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(a, b, ((lane & h) != 0 ? lane + width<T> : lane)...);
}
template <class T, int h, int... lane>
SMELT_INLINE Vector<T> other_lanes(Vector<T> a, Vector<T> b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(a, b, ((lane & h) != 0 ? (lane ^ h) + width<T> : lane ^ h)...);
}
template <class T> using Lanes = std::make_integer_sequence<int, width<T>>;

/// All lanes joined by f, which knows no order: the result in every lane.
template <class T, int h = width<T> / 2, class F> SMELT_INLINE Vector<T> across(Vector<T> v, F f) {
  v = f(v, other_lanes<T, h>(v, v, Lanes<T>()));
  if constexpr (h > 1) return across<T, h / 2>(v, f);
  return v;
}
/// The same of as many registers as one has lanes: lane i of the result is that of v[i]. v is written over.
template <class T, int h = width<T> / 2, class F> SMELT_INLINE Vector<T> across_each(Vector<T>* v, F f) {
  for (int i = 0; i < h; ++i)
    v[i] = f(own_lanes<T, h>(v[i], v[i + h], Lanes<T>()), other_lanes<T, h>(v[i], v[i + h], Lanes<T>()));
  if constexpr (h > 1) return across_each<T, h / 2>(v, f);
  return v[0];
}

/// The larger or the smaller of each pair, where it is a number; else b.
template <bool largest, class T> SMELT_INLINE Vector<T> extreme(Vector<T> a, Vector<T> b) {
  using V [[maybe_unused]] = Vector<T>;
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) return largest ? _mm512_max_ps(a, b) : _mm512_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return largest ? _mm512_max_pd(a, b) : _mm512_min_pd(a, b);
  [[maybe_unused]] const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b);
  if constexpr (std::is_same_v<T, int32_t>) return reinterpret_cast<V>(largest ? _mm512_max_epi32(x, y) : _mm512_min_epi32(x, y));
  if constexpr (std::is_same_v<T, int64_t>) return reinterpret_cast<V>(largest ? _mm512_max_epi64(x, y) : _mm512_min_epi64(x, y));
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<T, float>) return largest ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return largest ? _mm256_max_pd(a, b) : _mm256_min_pd(a, b);
  [[maybe_unused]] const auto x = reinterpret_cast<__m256i>(a), y = reinterpret_cast<__m256i>(b);
  if constexpr (std::is_same_v<T, int32_t>) return reinterpret_cast<V>(largest ? _mm256_max_epi32(x, y) : _mm256_min_epi32(x, y));
  if constexpr (std::is_same_v<T, int8_t>) return reinterpret_cast<V>(largest ? _mm256_max_epi8(x, y) : _mm256_min_epi8(x, y));
  if constexpr (std::is_same_v<T, uint8_t>) return reinterpret_cast<V>(largest ? _mm256_max_epu8(x, y) : _mm256_min_epu8(x, y));
#else
  if constexpr (std::is_same_v<T, float>) return largest ? _mm_max_ps(a, b) : _mm_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>) return largest ? _mm_max_pd(a, b) : _mm_min_pd(a, b);
  [[maybe_unused]] const auto x = reinterpret_cast<__m128i>(a), y = reinterpret_cast<__m128i>(b);
  if constexpr (std::is_same_v<T, uint8_t>) return reinterpret_cast<V>(largest ? _mm_max_epu8(x, y) : _mm_min_epu8(x, y));
#endif
  return (largest ? a > b : a < b) ? a : b;
}

/// The same; NaN where either is. Both orders' bits or-ed: each keeps its second operand's NaN.
template <bool largest, class T> SMELT_INLINE Vector<T> extreme_or_nan(Vector<T> a, Vector<T> b) {
  const Vector<T> one = extreme<largest, T>(a, b);
  if constexpr (!std::is_floating_point_v<T>) return one;
  using Bits = Vector<MaskOf<T>>;
  return reinterpret_cast<Vector<T>>(reinterpret_cast<Bits>(one) | reinterpret_cast<Bits>(extreme<largest, T>(b, a)));
}

}  // namespace smelt::SMELT_ISA
