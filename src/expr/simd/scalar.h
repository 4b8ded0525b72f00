// The functions that functions.def's code may call, on scalars: float, double and integers. functions.def defines what they do.
// For *.simd.cpp sources only (isa.h), which the build compiles with -fwrapv: signed overflow wraps. Calls of libm are builtins,
// because an inline function of <cmath> would be compiled into an object that only some CPUs can run.
#pragma once

#include <type_traits>

#include "expr/simd/double_math.h"
#include "expr/simd/math.h"

namespace smelt::SMELT_ISA {

template <class T> inline constexpr bool is_number = std::is_arithmetic_v<T>;
template <class T> inline constexpr bool is_floating = std::is_floating_point_v<T>;

template <class T> SMELT_INLINE T pick(bool c, T a, T b) { return c ? a : b; }
// Two choices, one after the other: one by `a < b || a != a` is a branch, and g++ 12 vectorises no loop with such in doubles.
template <class T>
requires is_number<T> SMELT_INLINE T nan_min(T a, T b) {
  const T least = a < b ? a : b;
  return a != a ? a : least;
}
template <class T>
requires is_number<T> SMELT_INLINE T nan_max(T a, T b) {
  const T most = a > b ? a : b;
  return a != a ? a : most;
}
template <class T>
requires is_number<T> SMELT_INLINE T abs(T a) {
  if constexpr (is_floating<T>)
    return static_cast<T>(sizeof(T) == 4 ? __builtin_fabsf(static_cast<float>(a)) : __builtin_fabs(a));
  else if constexpr (std::is_unsigned_v<T>)
    return a;
  else
    return static_cast<T>(a < 0 ? -a : a);
}

/// Integers of up to 32 bits as floats, and back: their quotients, truncated, are those of the integers, as a float of twice their
/// width holds the products. Loops over these are vectorised, which those over the division instruction are not.
template <class T> using Dividend = std::conditional_t<sizeof(T) == 4, double, float>;
template <class T> SMELT_INLINE Dividend<T> as_dividend(T a) {
  if constexpr (sizeof(T) == 4 && std::is_unsigned_v<T>)
    return static_cast<double>(static_cast<int32_t>(a ^ 0x80000000u)) + 2147483648.0;
  else
    return static_cast<Dividend<T>>(static_cast<int32_t>(a));
}
template <class T> SMELT_INLINE T truncated(Dividend<T> q) {
  if constexpr (sizeof(T) == 4 && std::is_unsigned_v<T>)
    return static_cast<T>(static_cast<int32_t>(__builtin_floor(q) - 2147483648.0)) ^ 0x80000000u;
  else
    return static_cast<T>(static_cast<int32_t>(q));
}

template <class T>
requires is_number<T> SMELT_INLINE T quotient(T a, T b) {
  if constexpr (is_floating<T>) {
    return a / b;
  } else if constexpr (sizeof(T) == 8) {
    if constexpr (std::is_signed_v<T>)
      return b == 0 ? T(0) : b == -1 ? static_cast<T>(-a) : static_cast<T>(a / b);
    else
      return b == 0 ? T(0) : static_cast<T>(a / b);
  } else {
    const bool zero = b == 0, minus = std::is_signed_v<T> && b == T(-1);  // the latter: the smallest has no quotient
    const T by = zero | minus ? T(1) : b, q = truncated<T>(as_dividend<T>(a) / as_dividend<T>(by));
    const T negated = static_cast<T>(-a), other = zero ? T(0) : q;
    return minus ? negated : other;
  }
}
SMELT_INLINE F32 quotient(F32 a, F32 b) { return a / b; }

template <class T>
requires is_number<T> SMELT_INLINE T trunc_mod(T a, T b) {
  if constexpr (is_floating<T>)
    return static_cast<T>(sizeof(T) == 4 ? __builtin_fmodf(static_cast<float>(a), static_cast<float>(b)) : __builtin_fmod(a, b));
  else if constexpr (sizeof(T) < 8)
    return b == 0 ? T(0) : static_cast<T>(a - quotient(a, b) * b);
  else if constexpr (std::is_signed_v<T>)
    return b == 0 || b == -1 ? T(0) : static_cast<T>(a % b);
  else
    return b == 0 ? T(0) : static_cast<T>(a % b);
}
SMELT_INLINE F32 trunc_mod(F32 a, F32 b) {
  return by_lane(a, b, [](float x, float y) { return __builtin_fmodf(x, y); });
}

template <class T> SMELT_INLINE T floor_mod(T a, T b) {
  const T r = trunc_mod(a, b);
  return (r != 0) & ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
}

template <class T>
requires is_number<T> SMELT_INLINE T power(T a, T b) {
  if constexpr (is_floating<T>) {
    return __builtin_pow(a, b);
  } else {
    if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
    T r = 1;
    for (; b != 0; b = static_cast<T>(b >> 1), a = static_cast<T>(a * a))
      if (b & 1) r = static_cast<T>(r * a);
    return r;
  }
}

template <class T> SMELT_INLINE T shifted_left(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : static_cast<T>(a << b); }
template <class T> SMELT_INLINE T shifted_right(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : static_cast<T>(a >> b); }

// clang-format off
#define SMELT_LIBM(name) \
  SMELT_INLINE double name(double a) { return __builtin_##name(a); }
SMELT_LIBM(sqrt) SMELT_LIBM(floor) SMELT_LIBM(ceil) SMELT_LIBM(rint) SMELT_LIBM(sin) SMELT_LIBM(cos) SMELT_LIBM(tan)
SMELT_LIBM(asin) SMELT_LIBM(acos) SMELT_LIBM(atan) SMELT_LIBM(sinh) SMELT_LIBM(cosh) SMELT_LIBM(asinh) SMELT_LIBM(acosh)
SMELT_LIBM(atanh) SMELT_LIBM(erf)
#undef SMELT_LIBM
// clang-format on

/// The first power of two above To's range, which a float holds exactly; it does not always hold To's largest value.
template <class To, class From>
inline constexpr From above = static_cast<From>(To(To(1) << (sizeof(To) * 8 - 2))) * (std::is_signed_v<To> ? From(2) : From(4));

/// A float as an integer whose smallest and largest value From holds: moved into the range first, so that no step is a branch.
/// Narrow ones and, of doubles, u32 go through i32, to which one instruction converts.
template <class To, class From> SMELT_INLINE To clamped_to(From a) {
  constexpr From low = std::is_signed_v<To> ? -above<To, From> : From(0), high = above<To, From> - From(1);
  a = a > low ? a : low;  // NaN too
  a = a < high ? a : high;
  if constexpr (sizeof(To) == 4 && !std::is_signed_v<To>)
    return static_cast<To>(static_cast<int32_t>(__builtin_floor(a) - From(2147483648.0))) ^ To(0x80000000u);
  else
    return static_cast<To>(static_cast<int32_t>(a));
}

/// Converts a float or an integer as Fn::cast does (expr/program.h).
template <class To, class From> SMELT_INLINE To converted(From a) {
  if constexpr (std::is_same_v<To, bool>) {
    return a != From(0);
  } else if constexpr (is_floating<From> && !is_floating<To>) {
    if constexpr (sizeof(To) < sizeof(From)) {
      const To y = clamped_to<To>(a);
      return a != a ? To(0) : y;
    }
    constexpr To largest = std::is_signed_v<To> ? To(~(To(1) << (sizeof(To) * 8 - 1))) : To(~To(0)),
                 smallest = std::is_signed_v<To> ? To(~largest) : To(0);
    constexpr From top = above<To, From>;
    if (a != a) return To(0);
    if (a >= top) return largest;
    return a <= (std::is_signed_v<To> ? -top : From(0)) ? smallest : static_cast<To>(a);
  } else {
    return static_cast<To>(a);
  }
}

}  // namespace smelt::SMELT_ISA
