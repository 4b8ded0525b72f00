// The elements of lines as registers hold them. For *.simd.cpp sources only (expr/simd/isa.h).
#pragma once

#include "expr/simd/half.h"
#include "expr/simd/vector.h"
#include "ops/reduce/simd/lines.h"

namespace smelt::SMELT_ISA {

template <class E> inline constexpr bool is_half = std::is_same_v<E, HalfBits> || std::is_same_v<E, BFloatBits>;

/// What an E is compared as.
template <class E> using ComparedAs = std::conditional_t<is_half<E>, float, std::conditional_t<(sizeof(E) < 4), int32_t, E>>;

template <class E> SMELT_INLINE Vector<ComparedAs<E>> load_elements(const E* p) {
  using C = ComparedAs<E>;
  if constexpr (is_half<E>) {
    return load(p).v;
  } else if constexpr (std::is_same_v<C, E>) {
    return load_vector(p);
#if defined(__AVX512F__)  // a compiler makes them of bytes piece by piece
  } else if constexpr (sizeof(E) == 1) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return reinterpret_cast<Vector<C>>(std::is_signed_v<E> ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
#elif defined(__AVX2__)
  } else if constexpr (sizeof(E) == 1) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return reinterpret_cast<Vector<C>>(std::is_signed_v<E> ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
#endif
  } else {
    typedef E Narrow __attribute__((vector_size(sizeof(E) * width<C>)));
    Narrow v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Vector<C>);
  }
}
/// The first `count` at p, then the first of them again.
template <class E> SMELT_INLINE Vector<ComparedAs<E>> load_elements(const E* p, int64_t count) {
  constexpr int w = width<ComparedAs<E>>;
  if (count >= w) return load_elements(p);
  E all[w];
  for (int i = 0; i < w; ++i) all[i] = p[i < count ? i : 0];
  return load_elements(static_cast<const E*>(all));
}
template <class E> SMELT_INLINE ComparedAs<E> element(E v) {
  if constexpr (is_half<E>) {
    E all[lanes] = {v};
    float one[lanes];
    store(one, load(static_cast<const E*>(all)));
    return one[0];
  } else {
    return v;
  }
}

/// Calls f with a null pointer to what e says.
template <class F> SMELT_INLINE auto with_element(ops::LineElement e, F&& f) {
  using ops::LineElement;
  switch (e) {
    case LineElement::f32: return f(static_cast<const float*>(nullptr));
    case LineElement::f64: return f(static_cast<const double*>(nullptr));
    case LineElement::f16: return f(static_cast<const HalfBits*>(nullptr));
    case LineElement::bf16: return f(static_cast<const BFloatBits*>(nullptr));
    case LineElement::i8: return f(static_cast<const int8_t*>(nullptr));
    case LineElement::i16: return f(static_cast<const int16_t*>(nullptr));
    case LineElement::i32: return f(static_cast<const int32_t*>(nullptr));
    case LineElement::i64: return f(static_cast<const int64_t*>(nullptr));
    case LineElement::u8: return f(static_cast<const uint8_t*>(nullptr));
    case LineElement::u16: return f(static_cast<const uint16_t*>(nullptr));
    case LineElement::u32: return f(static_cast<const uint32_t*>(nullptr));
    default: return f(static_cast<const uint64_t*>(nullptr));
  }
}

/// A comparison's lanes; any(m) whether one of them is set.
template <class T> SMELT_INLINE bool any(Vector<MaskOf<T>> m) {
#if defined(__AVX512F__)
  const auto bits = reinterpret_cast<__m512i>(m);
  return _mm512_test_epi64_mask(bits, bits) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_epi8(reinterpret_cast<__m256i>(m)) != 0;
#else
  return _mm_movemask_epi8(reinterpret_cast<__m128i>(m)) != 0;
#endif
}

}  // namespace smelt::SMELT_ISA
