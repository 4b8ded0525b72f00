// Elementary functions of doubles, without a branch, so that the compiler vectorises loops over them, which calls of libm do not
// allow. Errors in units in the last place stand in tests/expr/double_math_test.cpp, which holds them to long double. For
// *.simd.cpp sources only (isa.h).
#pragma once

#include "expr/simd/vec.h"

namespace smelt::SMELT_ISA {

SMELT_INLINE uint64_t bits_of(double x) {
  uint64_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
SMELT_INLINE double double_of(uint64_t u) {
  double x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

/// Added to a double below 2^51 it rounds to whole numbers and leaves them in the last bits.
inline constexpr double whole_part = 6755399441055744.0;

/// 2^n for the whole number n in [-1022, 1023] that `shifted` = n + whole_part holds.
SMELT_INLINE double power_of_two(double shifted) { return double_of((bits_of(shifted) + 1023) << 52); }

/// x = n ln2 + r with n whole, |r| <= ln2 / 2; returns r. The first part of ln2 has 33 bits, so that its product with n is exact.
SMELT_INLINE double reduce_by_ln2(double x, double& n) {
  n = (x * 1.4426950408889634 + whole_part) - whole_part;
  return (x - n * 0.6931471806019545) - n * -4.2009150726810846e-11;
}

/// expm1(r) by its series. `terms`: 13 for double, where the first one left out is below 2^-57 of the result; 7 for float.
template <int terms> SMELT_INLINE double expm1_series(double r) {
  constexpr double factors[] = {1.0 / 2,         1.0 / 6,          1.0 / 24,         1.0 / 120,     1.0 / 720,
                                1.0 / 5040,      1.0 / 40320,      1.0 / 362880,     1.0 / 3628800, 1.0 / 39916800,
                                1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};
  double q = factors[terms - 1];
#pragma GCC unroll 16
  for (int i = terms - 2; i >= 0; --i) q = q * r + factors[i];
  return r + r * r * q;
}

/// (1 + p) 2^n, in two factors, as n reaches 1024 and -1076.
SMELT_INLINE double scaled(double p, double n) {
  const double first = n * 0.5 + whole_part, second = (n - (first - whole_part)) + whole_part;
  return (1 + p) * power_of_two(first) * power_of_two(second);
}
SMELT_INLINE double clamped(double x, double low, double high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}

SMELT_INLINE double exp(double x) {
  double n;
  const double r = reduce_by_ln2(clamped(x, -746, 710), n);
  return x != x ? x : scaled(expm1_series<13>(r), n);
}

/// The scale is 2^(n - 1), so that it does not overflow at n = 1024 while the result is finite.
SMELT_INLINE double expm1(double x) {
  double n;
  const double p = expm1_series<13>(reduce_by_ln2(clamped(x, -40, 710), n));
  const double scale = power_of_two((n - 1) + whole_part), y = scale * p + (scale - 0.5);
  return x != x ? x : n == 0 ? p : y + y;
}

/// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for normal x > 0.
SMELT_INLINE double split_exponent(double x, double& e) {
  constexpr uint64_t root = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000, fraction = 0x000fffffffffffff;
  const uint64_t shifted = bits_of(x) + (one - root);
  e = double_of((shifted >> 52) | 0x4330000000000000) - (4503599627370496.0 + 1023);
  return double_of((shifted & fraction) + root) - 1;
}

/// log(1 + f) - f for such f, by the series of 2 atanh(f / (2 + f)). `terms`: 11 for double, 5 for float.
template <int terms> SMELT_INLINE double log1p_rest(double f) {
  const double s = f / (2 + f), z = s * s;
  double p = 1.0 / (2 * terms + 1);
#pragma GCC unroll 16
  for (int i = terms - 1; i >= 1; --i) p = p * z + 1.0 / (2 * i + 1);
  return -s * (f - 2 * z * p);
}

/// -infinity at 0, NaN below 0.
SMELT_INLINE double log(double x) {
  const bool tiny = x < 2.2250738585072014e-308;
  double e;
  const double f = split_exponent(tiny ? x * 18014398509481984.0 : x, e);
  e -= tiny ? 54.0 : 0.0;
  // The first part of ln2 has 33 bits.
  double y = e * 0.6931471806019545 + (f + (log1p_rest<11>(f) + e * -4.2009150726810846e-11));
  y = x == __builtin_inf() ? x : y;
  y = x == 0 ? -__builtin_inf() : y;
  y = x < 0 ? __builtin_nan("") : y;
  return x != x ? x : y;
}

/// Kahan's method: with w = 1 + x rounded, log(w) x / (w - 1) corrects for the rounding.
SMELT_INLINE double log1p(double x) {
  const double w = 1 + x, exact = w - 1, y = log(w);
  const double corrected = w > 9007199254740992.0 ? y : y * (x / exact);
  return exact == 0 ? x : corrected;
}

/// By t / (t + 2) with t = expm1(2|x|); exactly 1 from 20 on.
SMELT_INLINE double tanh(double x) {
  double a = __builtin_fabs(x);
  a = a < 20 ? a : 20;
  const double t = expm1(a + a);
  return x != x ? x : __builtin_copysign(t / (t + 2), x);
}

}  // namespace smelt::SMELT_ISA
