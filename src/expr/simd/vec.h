// F32, a register of floats, and I32, a register of 32-bit integers, with the operations that the kernels use: 16 lanes with
// AVX-512, 8 with AVX2, 4 with SSE2. For *.simd.cpp sources only (isa.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define SMELT_INLINE inline __attribute__((always_inline))

namespace smelt::SMELT_ISA {

#if defined(__AVX512F__)
using FloatRegister = __m512;
using IntRegister = __m512i;
using MaskRegister = __mmask16;
#elif defined(__AVX2__)
using FloatRegister = __m256;
using IntRegister = __m256i;
using MaskRegister = __m256;
#else
using FloatRegister = __m128;
using IntRegister = __m128i;
using MaskRegister = __m128;
#endif
inline constexpr int lanes = sizeof(FloatRegister) / sizeof(float);

struct I32 {
  IntRegister v;
};

/// A truth value for each lane: all bits set for true, none for false; with AVX-512 one bit.
struct Mask {
  MaskRegister v;
};

struct F32 {
  FloatRegister v;
  F32() = default;
  SMELT_INLINE F32(FloatRegister r) : v(r) {}
#if defined(__AVX512F__)
  SMELT_INLINE explicit F32(double x) : v(_mm512_set1_ps(static_cast<float>(x))) {}
#elif defined(__AVX2__)
  SMELT_INLINE explicit F32(double x) : v(_mm256_set1_ps(static_cast<float>(x))) {}
#else
  SMELT_INLINE explicit F32(double x) : v(_mm_set1_ps(static_cast<float>(x))) {}
#endif
};

}  // namespace smelt::SMELT_ISA

#ifdef __AVX512F__
#include "expr/simd/vec512.h"
#endif

namespace smelt::SMELT_ISA {

#if defined(__AVX512F__)
#elif defined(__AVX2__)
SMELT_INLINE F32 load(const float* p) { return _mm256_loadu_ps(p); }
SMELT_INLINE void store(float* p, F32 a) { _mm256_storeu_ps(p, a.v); }
SMELT_INLINE F32 splat(float x) { return _mm256_set1_ps(x); }
SMELT_INLINE F32 operator+(F32 a, F32 b) { return _mm256_add_ps(a.v, b.v); }
SMELT_INLINE F32 operator-(F32 a, F32 b) { return _mm256_sub_ps(a.v, b.v); }
SMELT_INLINE F32 operator*(F32 a, F32 b) { return _mm256_mul_ps(a.v, b.v); }
SMELT_INLINE F32 operator/(F32 a, F32 b) { return _mm256_div_ps(a.v, b.v); }
SMELT_INLINE F32 operator-(F32 a) { return _mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f)); }
SMELT_INLINE Mask operator<(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
SMELT_INLINE Mask operator>(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
SMELT_INLINE Mask operator==(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
SMELT_INLINE Mask operator!=(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
/// c ? a : b, lane by lane.
SMELT_INLINE F32 pick(Mask c, F32 a, F32 b) { return _mm256_blendv_ps(b.v, a.v, c.v); }
/// a * b + c, with one rounding (SSE2: two).
SMELT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
/// c - a * b, with one rounding (SSE2: two).
SMELT_INLINE F32 fnma(F32 a, F32 b, F32 c) { return _mm256_fnmadd_ps(a.v, b.v, c.v); }
/// Minimum and maximum as the instructions define them: the second argument when either is NaN.
SMELT_INLINE F32 raw_min(F32 a, F32 b) { return _mm256_min_ps(a.v, b.v); }
SMELT_INLINE F32 raw_max(F32 a, F32 b) { return _mm256_max_ps(a.v, b.v); }
SMELT_INLINE F32 sqrt(F32 a) { return _mm256_sqrt_ps(a.v); }
SMELT_INLINE F32 floor(F32 a) { return _mm256_floor_ps(a.v); }
SMELT_INLINE F32 ceil(F32 a) { return _mm256_ceil_ps(a.v); }
/// The nearest integer; halves go to the even one.
SMELT_INLINE F32 rint(F32 a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
SMELT_INLINE F32 operator&(F32 a, F32 b) { return _mm256_and_ps(a.v, b.v); }
SMELT_INLINE F32 operator|(F32 a, F32 b) { return _mm256_or_ps(a.v, b.v); }
SMELT_INLINE I32 bits(F32 a) { return {_mm256_castps_si256(a.v)}; }
SMELT_INLINE F32 as_float(I32 a) { return _mm256_castsi256_ps(a.v); }
SMELT_INLINE I32 to_int(F32 a) { return {_mm256_cvtps_epi32(a.v)}; }
SMELT_INLINE F32 to_float(I32 a) { return _mm256_cvtepi32_ps(a.v); }
SMELT_INLINE I32 splat(int32_t x) { return {_mm256_set1_epi32(x)}; }
SMELT_INLINE I32 operator+(I32 a, I32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
SMELT_INLINE I32 operator-(I32 a, I32 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
SMELT_INLINE I32 operator&(I32 a, I32 b) { return {_mm256_and_si256(a.v, b.v)}; }
template <int n> SMELT_INLINE I32 shift_left(I32 a) { return {_mm256_slli_epi32(a.v, n)}; }
template <int n> SMELT_INLINE I32 shift_right_signed(I32 a) { return {_mm256_srai_epi32(a.v, n)}; }
SMELT_INLINE float sum(F32 a) {
  const __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 t = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}
#else
SMELT_INLINE F32 load(const float* p) { return _mm_loadu_ps(p); }
SMELT_INLINE void store(float* p, F32 a) { _mm_storeu_ps(p, a.v); }
SMELT_INLINE F32 splat(float x) { return _mm_set1_ps(x); }
SMELT_INLINE F32 operator+(F32 a, F32 b) { return _mm_add_ps(a.v, b.v); }
SMELT_INLINE F32 operator-(F32 a, F32 b) { return _mm_sub_ps(a.v, b.v); }
SMELT_INLINE F32 operator*(F32 a, F32 b) { return _mm_mul_ps(a.v, b.v); }
SMELT_INLINE F32 operator/(F32 a, F32 b) { return _mm_div_ps(a.v, b.v); }
SMELT_INLINE F32 operator-(F32 a) { return _mm_xor_ps(a.v, _mm_set1_ps(-0.0f)); }
SMELT_INLINE Mask operator<(F32 a, F32 b) { return {_mm_cmplt_ps(a.v, b.v)}; }
SMELT_INLINE Mask operator>(F32 a, F32 b) { return {_mm_cmpgt_ps(a.v, b.v)}; }
SMELT_INLINE Mask operator==(F32 a, F32 b) { return {_mm_cmpeq_ps(a.v, b.v)}; }
SMELT_INLINE Mask operator!=(F32 a, F32 b) { return {_mm_cmpneq_ps(a.v, b.v)}; }
SMELT_INLINE F32 pick(Mask c, F32 a, F32 b) { return _mm_or_ps(_mm_and_ps(c.v, a.v), _mm_andnot_ps(c.v, b.v)); }
SMELT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm_add_ps(_mm_mul_ps(a.v, b.v), c.v); }
SMELT_INLINE F32 fnma(F32 a, F32 b, F32 c) { return _mm_sub_ps(c.v, _mm_mul_ps(a.v, b.v)); }
SMELT_INLINE F32 raw_min(F32 a, F32 b) { return _mm_min_ps(a.v, b.v); }
SMELT_INLINE F32 raw_max(F32 a, F32 b) { return _mm_max_ps(a.v, b.v); }
SMELT_INLINE F32 sqrt(F32 a) { return _mm_sqrt_ps(a.v); }
SMELT_INLINE F32 operator&(F32 a, F32 b) { return _mm_and_ps(a.v, b.v); }
SMELT_INLINE F32 operator|(F32 a, F32 b) { return _mm_or_ps(a.v, b.v); }
SMELT_INLINE I32 bits(F32 a) { return {_mm_castps_si128(a.v)}; }
SMELT_INLINE F32 as_float(I32 a) { return _mm_castsi128_ps(a.v); }
SMELT_INLINE I32 to_int(F32 a) { return {_mm_cvtps_epi32(a.v)}; }
SMELT_INLINE F32 to_float(I32 a) { return _mm_cvtepi32_ps(a.v); }
SMELT_INLINE I32 splat(int32_t x) { return {_mm_set1_epi32(x)}; }
SMELT_INLINE I32 operator+(I32 a, I32 b) { return {_mm_add_epi32(a.v, b.v)}; }
SMELT_INLINE I32 operator-(I32 a, I32 b) { return {_mm_sub_epi32(a.v, b.v)}; }
SMELT_INLINE I32 operator&(I32 a, I32 b) { return {_mm_and_si128(a.v, b.v)}; }
template <int n> SMELT_INLINE I32 shift_left(I32 a) { return {_mm_slli_epi32(a.v, n)}; }
template <int n> SMELT_INLINE I32 shift_right_signed(I32 a) { return {_mm_srai_epi32(a.v, n)}; }
SMELT_INLINE float sum(F32 a) {
  const __m128 t = _mm_add_ps(a.v, _mm_movehl_ps(a.v, a.v));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}
/// SSE2 has no rounding instruction. From 2^23 on a float is an integer already; below, it is converted to i32 and back. The
/// result keeps the sign of zero.
SMELT_INLINE F32 rint(F32 a) {
  const F32 sign = a & F32(-0.0);
  const F32 magnitude = _mm_andnot_ps(_mm_set1_ps(-0.0f), a.v);
  return pick(magnitude < F32(8388608.0), to_float(to_int(a)) | sign, a);
}
SMELT_INLINE F32 floor(F32 a) {
  const F32 r = rint(a);
  return pick(r > a, r - F32(1), r);
}
SMELT_INLINE F32 ceil(F32 a) {
  const F32 r = rint(a);
  return pick(r < a, r + F32(1), r) | (a & F32(-0.0));
}
#endif

SMELT_INLINE F32 abs(F32 a) { return as_float(bits(a) & splat(int32_t{0x7fffffff})); }
SMELT_INLINE F32 with_sign_of(F32 magnitude, F32 sign) { return magnitude | (sign & F32(-0.0)); }
/// Minimum and maximum that are NaN when either argument is.
SMELT_INLINE F32 nan_min(F32 a, F32 b) { return pick(a != a, a, raw_min(a, b)); }
SMELT_INLINE F32 nan_max(F32 a, F32 b) { return pick(a != a, a, raw_max(a, b)); }

/// first_lanes: the first `count` < lanes of them. load_first loads as many floats at p, followed by zeros; store_first stores them.
#if defined(__AVX512F__)
// vec512.h
#elif defined(__AVX2__)
SMELT_INLINE __m256i first_lanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SMELT_INLINE F32 load_first(const float* p, int64_t count) { return _mm256_maskload_ps(p, first_lanes(count)); }
SMELT_INLINE void store_first(float* p, F32 a, int64_t count) { _mm256_maskstore_ps(p, first_lanes(count), a.v); }
#else
SMELT_INLINE __m128i first_lanes(int64_t count) {
  return _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int32_t>(count)), _mm_setr_epi32(0, 1, 2, 3));
}
SMELT_INLINE F32 load_first(const float* p, int64_t count) {
  float all[lanes] = {};
  std::memcpy(all, p, static_cast<size_t>(count) * sizeof(float));
  return load(all);
}
SMELT_INLINE void store_first(float* p, F32 a, int64_t count) {
  float all[lanes];
  store(all, a);
  std::memcpy(p, all, static_cast<size_t>(count) * sizeof(float));
}
#endif

}  // namespace smelt::SMELT_ISA
