// Elementary functions of f32 computed in double, without a branch, so that the compiler vectorises loops over them: half as many
// lanes, but short series, whose errors of 1e-12 vanish in the rounding to float. For *.simd.cpp sources only (isa.h).
#pragma once

#include "expr/simd/double_math.h"

namespace smelt::SMELT_ISA {

/// sin and cos of x below this, in magnitude: the multiple of pi/2 taken off has 20 bits, and its product with pi/2's first 33 is
/// exact.
inline constexpr float circular_limit = 1 << 20;

/// x = n pi/2 + r with n whole and |r| <= pi/4; returns r, and n in the last bits of `quadrant`.
SMELT_INLINE double reduce_by_half_pi(double x, uint64_t& quadrant) {
  const double shifted = x * 0.63661977236758134 + whole_part, n = shifted - whole_part;
  quadrant = bits_of(shifted);
  return x - n * 1.57079632673412561417 - n * 6.07710050650619224932e-11;
}

/// Their series; the first terms left out are below 1e-11 of the result.
SMELT_INLINE double sin_reduced(double r) {
  const double z = r * r;
  double p = -2.5052108385441718e-08;
  p = p * z + 2.7557319223985893e-06;
  p = p * z - 0.00019841269841269841;
  p = p * z + 0.0083333333333333333;
  p = p * z - 0.16666666666666667;
  return r + r * z * p;
}
SMELT_INLINE double cos_reduced(double r) {
  const double z = r * r;
  double p = 2.0876756987868099e-09;
  p = p * z - 2.7557319223985888e-07;
  p = p * z + 2.4801587301587302e-05;
  p = p * z - 0.0013888888888888889;
  p = p * z + 0.041666666666666667;
  p = p * z - 0.5;
  return 1 + z * p;
}

/// +1 or -1 as bits of a double: 0, or its sign bit where `bit` of n is set.
SMELT_INLINE double with_sign_bit(double x, uint64_t negative) { return double_of(bits_of(x) ^ negative << 63); }

/// 1 ulp for |x| < circular_limit.
SMELT_INLINE float sin(float x) {
  uint64_t n;
  const double r = reduce_by_half_pi(x, n), s = sin_reduced(r), c = cos_reduced(r);
  return static_cast<float>(x == 0 ? x : with_sign_bit((n & 1) != 0 ? c : s, n >> 1 & 1));
}
SMELT_INLINE float cos(float x) {
  uint64_t n;
  const double r = reduce_by_half_pi(x, n), s = sin_reduced(r), c = cos_reduced(r);
  return static_cast<float>(with_sign_bit((n & 1) != 0 ? s : c, (n >> 1 ^ n) & 1));
}
SMELT_INLINE float tan(float x) {
  uint64_t n;
  const double r = reduce_by_half_pi(x, n), s = sin_reduced(r), c = cos_reduced(r);
  const bool odd = (n & 1) != 0;
  return static_cast<float>(x == 0 ? x : (odd ? -c : s) / (odd ? s : c));
}

/// a^b: 1 ulp where a is neither 0 nor infinite and b is finite.
SMELT_INLINE float power(float a, float b) {
  double e, n;
  const double f = split_exponent(__builtin_fabs(static_cast<double>(a)), e), exponent = b;
  const double log = e * 0.69314718055994531 + (f + log1p_rest<5>(f));
  const double r = reduce_by_ln2(clamped(exponent * log, -160, 160), n);
  const double y = (1 + expm1_series<7>(r)) * power_of_two(n + whole_part);
  // From 2^24 on floats are even.
  const double shifted = exponent + whole_part;
  const bool large = __builtin_fabs(exponent) >= 16777216.0, whole = large | (shifted - whole_part == exponent);
  const double of_negative = whole ? with_sign_bit(y, large ? 0 : bits_of(shifted) & 1) : __builtin_nan("");
  return static_cast<float>(a < 0 ? of_negative : y);
}

/// asin(x) in double, NaN beyond 1; by pi/2 - 2 asin(sqrt((1 - x) / 2)) above 1/2. The polynomial is a minimax fit as math.h's are.
SMELT_INLINE double wide_asin(double x) {
  const double a = __builtin_fabs(x), halved = (1 - a) * 0.5;
  const bool large = a > 0.5;
  const double z = large ? halved : a * a, root = __builtin_sqrt(z), y = large ? root : a;
  double p = 0.031958314135735306;
  p = p * z - 0.002857271445262429;
  p = p * z + 0.018629999212058573;
  p = p * z + 0.016477815088920964;
  p = p * z + 0.022471300454285754;
  p = p * z + 0.030375233386099734;
  p = p * z + 0.04464311246420186;
  p = p * z + 0.07499999525601848;
  p = p * z + 0.1666666666969581;
  const double small = y + y * z * p;
  return __builtin_copysign(large ? 1.5707963267948966 - 2 * small : small, x);
}

/// 1 ulp.
SMELT_INLINE float asin(float x) { return static_cast<float>(wide_asin(x)); }
SMELT_INLINE float acos(float x) { return static_cast<float>(1.5707963267948966 - wide_asin(x)); }

/// 1 ulp. Arguments above tan(pi / 8) are turned by pi/4, those above tan(3 pi / 8) by pi/2.
SMELT_INLINE float atan(float x) {
  const double a = __builtin_fabs(static_cast<double>(x));
  const bool middle = a > 0.41421356237309503, large = a > 2.4142135623730949;
  const double numerator = large ? -1.0 : middle ? a - 1 : a, denominator = large ? a : middle ? a + 1 : 1.0;
  const double t = numerator / denominator, z = t * t;
  double p = 0.030894901070888173;
  p = p * z - 0.05891068993105019;
  p = p * z + 0.07568542185724962;
  p = p * z - 0.09079137814662022;
  p = p * z + 0.11110449991932904;
  p = p * z - 0.14285693596086432;
  p = p * z + 0.19999999685616962;
  p = p * z - 0.33333333331697074;
  const double turned = large ? 1.5707963267948966 : middle ? 0.78539816339744831 : 0.0;
  return static_cast<float>(__builtin_copysign(turned + (t + t * z * p), static_cast<double>(x)));
}

}  // namespace smelt::SMELT_ISA
