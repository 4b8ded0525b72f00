// Conversions of f16 and bf16 to and from float, a register at a time, rounded to nearest even. For *.simd.cpp sources only
// (isa.h).
#pragma once

#include "expr/simd/float_kind.h"
#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {

struct HalfBits {
  uint16_t bits;
};
struct BFloatBits {
  uint16_t bits;
};

#if defined(__AVX512F__)
SMELT_INLINE F32 load(const HalfBits* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
SMELT_INLINE void store(HalfBits* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__F16C__)
SMELT_INLINE F32 load(const HalfBits* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
SMELT_INLINE void store(HalfBits* p, F32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
/// Exact. A subnormal is its magnitude times 2^-24; infinities and NaNs get the largest exponent, and NaNs become quiet.
SMELT_INLINE float from_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, magnitude = h & 0x7fffu;
  uint32_t out;
  if (magnitude >= 0x7c00) {
    out = 0x7f800000 | (magnitude & 0x3ff) << 13 | (magnitude > 0x7c00 ? 0x400000 : 0);
  } else if (magnitude >= 0x400) {
    out = (magnitude << 13) + 0x38000000;
  } else {
    const float small = static_cast<float>(magnitude) * 5.9604644775390625e-08f;  // 2^-24
    std::memcpy(&out, &small, 4);
  }
  out |= sign;
  float f;
  std::memcpy(&f, &out, 4);
  return f;
}
SMELT_INLINE uint16_t to_half(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  const uint16_t sign = static_cast<uint16_t>(u >> 16 & 0x8000);
  u &= 0x7fffffff;
  if (u > 0x7f800000) return sign | 0x7e00 | (u >> 13 & 0x3ff);
  if (u >= 0x477ff000) return sign | 0x7c00;  // 65520 and above round to infinity
  if (u < 0x38800000) {                       // below 2^-14: adding 0.5 rounds to multiples of 2^-24
    float magnitude;
    std::memcpy(&magnitude, &u, 4);
    magnitude += 0.5f;
    std::memcpy(&u, &magnitude, 4);
    return sign | static_cast<uint16_t>(u - 0x3f000000);
  }
  u += 0xfff + (u >> 13 & 1);
  return sign | static_cast<uint16_t>((u - 0x38000000) >> 13);
}
SMELT_INLINE F32 load(const HalfBits* p) {
  float v[lanes];
  for (int i = 0; i < lanes; ++i) v[i] = from_half(p[i].bits);
  return load(v);
}
SMELT_INLINE void store(HalfBits* p, F32 a) {
  float v[lanes];
  store(v, a);
  for (int i = 0; i < lanes; ++i) p[i].bits = to_half(v[i]);
}
#endif

#if defined(__AVX512F__)
SMELT_INLINE F32 load(const BFloatBits* p) {
  return as_float({_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16)});
}
#elif defined(__AVX2__)
SMELT_INLINE F32 load(const BFloatBits* p) {
  return as_float({_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16)});
}
#else
SMELT_INLINE F32 load(const BFloatBits* p) {
  const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return as_float({_mm_unpacklo_epi16(_mm_setzero_si128(), b)});
}
#endif
SMELT_INLINE void store(BFloatBits* p, F32 a) {
  // Adding 0x7fff and the last kept bit rounds to nearest even. A NaN keeps its upper bits and becomes quiet.
  const I32 u = bits(a);
#if defined(__AVX512F__)
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u.v, 16), _mm512_set1_epi32(1));
  const F32 rounded = as_float(u + splat(int32_t{0x7fff}) + I32{odd});
  const F32 result = pick(a != a, a | as_float(splat(int32_t{0x00400000})), rounded);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits(result).v, 16)));
#elif defined(__AVX2__)
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u.v, 16), _mm256_set1_epi32(1));
  const F32 rounded = as_float(u + splat(int32_t{0x7fff}) + I32{odd});
  const F32 result = pick(a != a, a | as_float(splat(int32_t{0x00400000})), rounded);
  const __m256i upper = _mm256_srli_epi32(bits(result).v, 16);
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
#else
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(u.v, 16), _mm_set1_epi32(1));
  const F32 rounded = as_float(u + splat(int32_t{0x7fff}) + I32{odd});
  const F32 result = pick(a != a, a | as_float(splat(int32_t{0x00400000})), rounded);
  // _mm_packs_epi32 saturates, so the arithmetic shift extends the sign first: every value then fits in 16 bits.
  const __m128i upper = _mm_srai_epi32(bits(result).v, 16);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi32(upper, upper));
#endif
}

/// Loads the first `count` < lanes elements at p, followed by zeros; store_first stores the first `count` lanes.
template <class H> SMELT_INLINE F32 load_first(const H* p, int64_t count) {
  H all[lanes] = {};
  std::memcpy(all, p, static_cast<size_t>(count) * sizeof(H));
  return load(all);
}
template <class H> SMELT_INLINE void store_first(H* p, F32 a, int64_t count) {
  H all[lanes];
  store(all, a);
  std::memcpy(p, all, static_cast<size_t>(count) * sizeof(H));
}

/// Calls f with a null pointer whose type is that of a `t` in memory; dispatches templates on the type.
template <class F> SMELT_INLINE void with_float_type(simd::FloatKind t, F&& f) {
  switch (t) {
    case simd::FloatKind::f32: return f(static_cast<const float*>(nullptr));
    case simd::FloatKind::f16: return f(static_cast<const HalfBits*>(nullptr));
    case simd::FloatKind::bf16: return f(static_cast<const BFloatBits*>(nullptr));
  }
}

}  // namespace smelt::SMELT_ISA
