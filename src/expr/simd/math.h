// Elementary functions on F32. Each comment gives the largest error in units in the last place (ulp), which
// tests/expr/math_test.cpp checks against double. The polynomials are minimax fits of the relative error
// over the reduced range, by iteratively reweighted least squares on Chebyshev nodes. sinh, acosh and the like call libm for each
// lane; sin, acos and the like stand in wide_math.h.
#pragma once

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {

/// (expm1(r) - r) / r^2 for |r| <= ln2 / 2; relative error of what is made of it 1.4e-8 before rounding.
SMELT_INLINE F32 exp_polynomial(F32 r) {
  F32 q = F32(0.00139476068);
  q = fma(q, r, F32(0.0083672516));
  q = fma(q, r, F32(0.0416662656));
  q = fma(q, r, F32(0.166665375));
  return fma(q, r, F32(0.5));
}

/// expm1(r) and exp(r) for |r| <= ln2 / 2.
SMELT_INLINE F32 expm1_reduced(F32 r) { return fma(exp_polynomial(r) * r, r, r); }
SMELT_INLINE F32 exp_reduced(F32 r) { return fma(fma(exp_polynomial(r), r, F32(1)), r, F32(1)); }

/// The nearest integer to a number within 2^21, plus `more`, as the last bits of a float: 1.5 · 2^23 more than the integer.
template <int more> struct WholeInBits {
  F32 shifted;
  SMELT_INLINE F32 whole() const { return shifted - F32(0x1.8p23 + more); }
  /// 2^(n + more - 127), n + more from 0 on, which gives 0, to 254.
  SMELT_INLINE F32 power_of_two() const { return as_float(shift_left<23>(bits(shifted))); }
};

/// Range reduction by Cody and Waite's method: x = n ln2 + r, with n the nearest integer to x / ln2. Returns r. ln2 is the sum of
/// two floats; the larger has 9 significant bits, so that its product with n is exact.
template <int more> SMELT_INLINE F32 reduce_by_ln2(F32 x, WholeInBits<more>& n) {
  n.shifted = fma(x, F32(1.44269504088896341), F32(0x1.8p23 + more));
  const F32 whole = n.whole();
  return fnma(whole, F32(-2.12194440e-4), fnma(whole, F32(0.693359375), x));
}

#if defined(__AVX512F__)
/// a · 2^n for any integer n, rounded once.
SMELT_INLINE F32 times_power_of_two(F32 a, F32 n) { return _mm512_scalef_ps(a.v, n.v); }
#elif defined(__AVX2__)
SMELT_INLINE I32 half_of_unsigned(I32 a) { return {_mm256_srli_epi32(a.v, 1)}; }
#else
SMELT_INLINE I32 half_of_unsigned(I32 a) { return {_mm_srli_epi32(a.v, 1)}; }
#endif

/// exp(x): 2 ulp, including subnormal results and overflow to infinity. NaN gives NaN.
SMELT_INLINE F32 exp(F32 x) {
  x = raw_min(F32(89), raw_max(F32(-104), x));
#ifdef __AVX512F__
  WholeInBits<0> n;
  const F32 y = exp_reduced(reduce_by_ln2(x, n));
  return times_power_of_two(y, n.whole());
#else
  WholeInBits<2 * 127> n;  // 2^n in two factors: n reaches 128 and -150
  const F32 y = exp_reduced(reduce_by_ln2(x, n));
  const I32 both = bits(n.shifted), half = half_of_unsigned(both);
  return y * as_float(shift_left<23>(half)) * as_float(shift_left<23>(both - half));
#endif
}

/// exp(x) for x <= 0, as softmax needs it: 2 ulp down to -87.33, a subnormal number down to -87.68, and 0 below. NaN gives NaN.
SMELT_INLINE F32 exp_nonpositive(F32 x) {
  WholeInBits<127> n;
  const F32 y = exp_reduced(reduce_by_ln2(raw_max(F32(-87.9), x), n));
  return y * n.power_of_two();
}

/// exp(x) - 1: 3 ulp. The scale is 2^(n-1), so that it does not overflow at n = 128 while the result is finite.
SMELT_INLINE F32 expm1(F32 x) {
  x = raw_min(F32(89), raw_max(F32(-30), x));
  WholeInBits<126> n;
  const F32 p = expm1_reduced(reduce_by_ln2(x, n));
  const F32 scale = n.power_of_two();
  const F32 y = fma(scale, p, scale - F32(0.5));
  return pick(n.whole() == F32(0), p, y + y);
}

/// log(x): 2 ulp, including subnormal x; -infinity at 0, NaN below 0. x = 2^e (1 + f), and log(x) = e ln2 + log(1 + f).
SMELT_INLINE F32 log(F32 x) {
  const Mask tiny = x < F32(1.17549435e-38);
  const F32 scaled = pick(tiny, x * F32(8388608.0), x);
  // 1 + f lies in [sqrt(1/2), sqrt(2)). The bits of x less those of sqrt(1/2) have e in the exponent field; the other bits, added
  // to those of sqrt(1/2), are 1 + f.
  const I32 shifted = bits(scaled) - splat(int32_t{0x3f3504f3});
  const F32 e = to_float(shift_right_signed<23>(shifted)) - pick(tiny, F32(23), F32(0));
  const F32 f = as_float((shifted & splat(int32_t{0x007fffff})) + splat(int32_t{0x3f3504f3})) - F32(1);
  F32 p = F32(-0.0763449743);
  p = fma(p, f, F32(0.12761578));
  p = fma(p, f, F32(-0.131601825));
  p = fma(p, f, F32(0.142017573));
  p = fma(p, f, F32(-0.166233569));
  p = fma(p, f, F32(0.200012267));
  p = fma(p, f, F32(-0.250008196));
  p = fma(p, f, F32(0.333333313));
  const F32 square = f * f;
  F32 y = fma(p * f, square, e * F32(-2.12194440e-4));
  y = fnma(F32(0.5), square, y) + f;
  y = fma(e, F32(0.693359375), y);
  const F32 infinity = as_float(splat(int32_t{0x7f800000}));
  y = pick(x == infinity, x, y);
  y = pick(x == F32(0), -infinity, y);
  return pick(x < F32(0), as_float(splat(int32_t{0x7fc00000})), pick(x != x, x, y));
}

/// log(1 + x): 3 ulp for x > -1. Kahan's method: with w = 1 + x rounded, log(w) x / (w - 1) corrects for the rounding.
SMELT_INLINE F32 log1p(F32 x) {
  const F32 w = F32(1) + x, exact = w - F32(1);
  const F32 y = log(w);
  return pick(exact == F32(0), x, pick(w > F32(16777216.0), y, y * (x / exact)));
}

/// tanh(x): 3 ulp, by u / (u + 1) with u = expm1(2|x|) / 2; exactly 1 for |x| >= 10.
SMELT_INLINE F32 tanh(F32 x) {
  const F32 a = raw_min(F32(10), abs(x));
  WholeInBits<126> n;
  const F32 p = expm1_reduced(reduce_by_ln2(a + a, n)), half = n.power_of_two();
  const F32 u = fma(half, p, half - F32(0.5));
  return with_sign_of(u / (u + F32(1)), x);
}

/// erf(x): 2 ulp. For |x| < 1 it is x + x p(x^2), else 1 - exp(-q(|x|)), which is exactly 1 for |x| >= 4.
SMELT_INLINE F32 erf(F32 x) {
  const F32 a = raw_min(F32(4), abs(x)), t = a * a;
  F32 p = F32(7.85388329e-05);
  p = fma(p, t, F32(-0.000801020069));
  p = fma(p, t, F32(0.00518832868));
  p = fma(p, t, F32(-0.0268538129));
  p = fma(p, t, F32(0.112835854));
  p = fma(p, t, F32(-0.37612626));
  p = fma(p, t, F32(0.128379166));
  F32 q = F32(-0.000186776713);
  q = fma(q, a, F32(0.00295187416));
  q = fma(q, a, F32(-0.0218563024));
  q = fma(q, a, F32(0.103147946));
  q = fma(q, a, F32(0.638093591));
  q = fma(q, a, F32(1.12712252));
  q = fma(q, a, F32(0.000332692754));
  const F32 large = F32(1) - exp_nonpositive(-q);
  return with_sign_of(pick(a < F32(1), fma(a, p, a), large), x);
}

#define SMELT_BY_LANE(name, libm)   \
  SMELT_INLINE F32 name(F32 x) {    \
    float v[lanes];                 \
    store(v, x);                    \
    for (float& e : v) e = libm(e); \
    return load(v);                 \
  }
SMELT_BY_LANE(sinh, __builtin_sinhf)
SMELT_BY_LANE(cosh, __builtin_coshf)
SMELT_BY_LANE(asinh, __builtin_asinhf)
SMELT_BY_LANE(acosh, __builtin_acoshf)
SMELT_BY_LANE(atanh, __builtin_atanhf)
#undef SMELT_BY_LANE

template <class F> SMELT_INLINE F32 by_lane(F32 a, F32 b, F f) {
  float x[lanes], y[lanes];
  store(x, a);
  store(y, b);
  for (int i = 0; i < lanes; ++i) x[i] = f(x[i], y[i]);
  return load(x);
}

}  // namespace smelt::SMELT_ISA
