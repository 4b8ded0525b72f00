// F32 and I32 with AVX-512: 16 lanes. vec.h includes it where the build has that instruction set.
#pragma once

namespace smelt::SMELT_ISA {

SMELT_INLINE F32 load(const float* p) { return _mm512_loadu_ps(p); }
SMELT_INLINE void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
SMELT_INLINE F32 splat(float x) { return _mm512_set1_ps(x); }
SMELT_INLINE F32 operator+(F32 a, F32 b) { return _mm512_add_ps(a.v, b.v); }
SMELT_INLINE F32 operator-(F32 a, F32 b) { return _mm512_sub_ps(a.v, b.v); }
SMELT_INLINE F32 operator*(F32 a, F32 b) { return _mm512_mul_ps(a.v, b.v); }
SMELT_INLINE F32 operator/(F32 a, F32 b) { return _mm512_div_ps(a.v, b.v); }
SMELT_INLINE Mask operator<(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
SMELT_INLINE Mask operator>(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
SMELT_INLINE Mask operator==(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
SMELT_INLINE Mask operator!=(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
SMELT_INLINE F32 pick(Mask c, F32 a, F32 b) { return _mm512_mask_blend_ps(c.v, b.v, a.v); }
SMELT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
SMELT_INLINE F32 fnma(F32 a, F32 b, F32 c) { return _mm512_fnmadd_ps(a.v, b.v, c.v); }
SMELT_INLINE F32 raw_min(F32 a, F32 b) { return _mm512_min_ps(a.v, b.v); }
SMELT_INLINE F32 raw_max(F32 a, F32 b) { return _mm512_max_ps(a.v, b.v); }
SMELT_INLINE F32 sqrt(F32 a) { return _mm512_sqrt_ps(a.v); }
SMELT_INLINE F32 floor(F32 a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
SMELT_INLINE F32 ceil(F32 a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
SMELT_INLINE F32 rint(F32 a) { return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
SMELT_INLINE I32 bits(F32 a) { return {_mm512_castps_si512(a.v)}; }
SMELT_INLINE F32 as_float(I32 a) { return _mm512_castsi512_ps(a.v); }
SMELT_INLINE I32 to_int(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }
SMELT_INLINE F32 to_float(I32 a) { return _mm512_cvtepi32_ps(a.v); }
SMELT_INLINE I32 splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
SMELT_INLINE I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
SMELT_INLINE I32 operator-(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
SMELT_INLINE I32 operator&(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
SMELT_INLINE F32 operator&(F32 a, F32 b) { return as_float(bits(a) & bits(b)); }
SMELT_INLINE F32 operator|(F32 a, F32 b) { return as_float({_mm512_or_si512(bits(a).v, bits(b).v)}); }
SMELT_INLINE F32 operator-(F32 a) { return as_float({_mm512_xor_si512(bits(a).v, _mm512_set1_epi32(INT32_MIN))}); }
template <int n> SMELT_INLINE I32 shift_left(I32 a) { return {_mm512_slli_epi32(a.v, n)}; }
template <int n> SMELT_INLINE I32 shift_right_signed(I32 a) { return {_mm512_srai_epi32(a.v, n)}; }
SMELT_INLINE float sum(F32 a) { return _mm512_reduce_add_ps(a.v); }

SMELT_INLINE __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
SMELT_INLINE F32 load_first(const float* p, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), p); }
SMELT_INLINE void store_first(float* p, F32 a, int64_t count) { _mm512_mask_storeu_ps(p, first_lanes(count), a.v); }

}  // namespace smelt::SMELT_ISA
