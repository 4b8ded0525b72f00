// The functions that printed code calls besides CUDA's mathematical ones: those of functions.def, which says what they compute,
// and forms of some of its rows for a GPU.
#pragma once

#include "common/ptx/numbers.cuh"
#include "common/types.cuh"
#include "kernels/common/counted.h"
#include "kernels/common/exact_division.h"
#include "kernels/common/normal_tail.h"

namespace smelt_expr {
template <class T> __device__ __forceinline__ T pick(bool c, T a, T b) { return c ? a : b; }
__device__ __forceinline__ unsigned int abs(unsigned int a) { return a; }
__device__ __forceinline__ unsigned long long abs(unsigned long long a) { return a; }
template <class T> __device__ __forceinline__ T nan_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ __forceinline__ T nan_max(T a, T b) { return a > b || a != a ? a : b; }
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float nan_min(float a, float b) { return ptx::min_nan_f32(a, b); }
__device__ __forceinline__ float nan_max(float a, float b) { return ptx::max_nan_f32(a, b); }
#endif
__device__ __forceinline__ float quotient(float a, float b) { return a / b; }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
  return T(a / b);
}
__device__ __forceinline__ float trunc_mod(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double trunc_mod(double a, double b) { return fmod(a, b); }
template <class T> __device__ __forceinline__ T trunc_mod(T a, T b) {
  return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
template <class T> __device__ __forceinline__ T floor_mod(T a, T b) {
  const T r = trunc_mod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}
__device__ __forceinline__ float power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double power(double a, double b) { return pow(a, b); }
template <class T> __device__ __forceinline__ T power(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & T(1) ? T(-1) : T(1)) : T(0);
  T r = T(1);
  for (; b != T(0); b = T(b >> 1), a = T(a * a))
    if (b & T(1)) r = T(r * a);
  return r;
}
template <class T> __device__ __forceinline__ T shifted_left(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : T(a << b); }
template <class T> __device__ __forceinline__ T shifted_right(T a, T b) { return b >= sizeof(T) * 8 ? T(0) : T(a >> b); }
template <class To, class From> __device__ __forceinline__ To saturated(From a, From top, To smallest, To largest) {
  if (a != a) return To(0);
  if (a >= top) return largest;
  return a <= From(smallest) ? smallest : To(a);
}

/// a / (1 + 2^x).
__device__ __forceinline__ float over_one_and_exp2(float a, float x) {
  return a * ptx::rcp_approx_ftz_f32(1.0f + ptx::ex2_approx_ftz_f32(x));
}
__device__ __forceinline__ double over_one_and_exp2(double a, double x) { return a / (1 + exp2(x)); }
/// a / (1 + e^x).
template <class T> __device__ __forceinline__ T over_one_and_exp(T a, T x) {
  return over_one_and_exp2(a, x * T(1.4426950408889634));
}

/// a Φ(a), as max(a, 0) - |a| Φ(-|a|) (kernels/common/normal_tail.h).
__device__ __forceinline__ float gelu_by_tail(float a) {
  const float u = fminf(fabsf(a), 16.0f);                                   // the tail of 16 is 0, of infinity NaN
  return fmaf(-u, ptx::ex2_approx_ftz_f32(log2_normal_tail(u)), nan_max(a, 0.0f));
}
__device__ __forceinline__ double gelu_by_tail(double a) { return a * 0.5 * (1 + erf(a * 0.7071067811865476)); }

/// a (1 + tanh(√(2/π) (a + 0.044715 a³))) / 2 = a / (1 + e^(-2 √(2/π) (a + 0.044715 a³))).
template <class T> __device__ __forceinline__ T gelu_by_sigmoid(T a) {
  return over_one_and_exp2(a, a * (T(-0.1029432395800235) * (a * a) - T(2.302208198144325)));
}

/// clip(round(x) + zero, all of T's 8 bits) as a T, 0 where x is NaN; Number: it is not; Relu: of relu(x). `zero` is whole.
/// Between the bounds, a float of 1.5 · 2^23 more has the number in its low bits, rounded as floats are, halves to even: no
/// conversion, of which a multiprocessor does few a clock. Moved by an odd number, halves would be rounded the other way.
template <class T, bool Number, bool Relu> __device__ __forceinline__ T quantized(float x, float zero) {
  const int odd = static_cast<int>(zero) & 1;
  const float first = (T(-1) < T(0) ? -128.f : 0.f) - zero, last = first + 255.f;
  const float least = !Relu || first > 0 ? first : last < 0 ? last : 0.f, inside = fminf(fmaxf(x, least), last);
  const unsigned int bits = __float_as_uint(inside + (12582912.f + (zero - static_cast<float>(odd)))) + odd;
  return Number || x == x ? static_cast<T>(bits) : T(0);
}

/// quantized<T, Number, Relu>(x, zero) - less, which is whole and small, as a float that never was an integer.
template <class T, bool Number, bool Relu> __device__ __forceinline__ float requantized(float x, float zero, float less) {
  const float first = (T(-1) < T(0) ? -128.f : 0.f) - zero, last = first + 255.f;
  const float least = !Relu || first > 0 ? first : last < 0 ? last : 0.f, inside = fminf(fmaxf(x, least), last);
  const float whole = inside + 12582912.f - 12582912.f;
  return Number || x == x ? (zero == less ? whole : whole + (zero - less)) : 0.f - less;
}

/// A byte of a register that has four: to a program the same as a T, but that it is not taken out before it is used.
template <class T> struct ByteOf {
  unsigned int word, at;
  __device__ __forceinline__ operator T() const { return static_cast<T>(word >> 8 * at); }
};

/// 2^23 + b is the float whose low bits byte b is.
__device__ __forceinline__ float over_2_to_23(unsigned char b) { return __uint_as_float(0x4b000000u | b); }
__device__ __forceinline__ float over_2_to_23(ByteOf<unsigned char> b) {
  return __uint_as_float(__byte_perm(b.word, ptx::bits_of_2_to_23(), 0x7650u | b.at));
}
/// A byte less a whole number, as a float.
__device__ __forceinline__ float float_of_byte(unsigned char b, float less) { return over_2_to_23(b) - (8388608.f + less); }
__device__ __forceinline__ float float_of_byte(ByteOf<unsigned char> b, float less) {
  return over_2_to_23(b) - (8388608.f + less);
}
__device__ __forceinline__ float float_of_byte(signed char b, float less) {
  return float_of_byte(static_cast<unsigned char>(b ^ 0x80), 128.f + less);
}
__device__ __forceinline__ float float_of_byte(ByteOf<signed char> b, float less) {
  return float_of_byte(ByteOf<unsigned char>{b.word ^ 0x80808080u, b.at}, 128.f + less);
}

/// Of values of 8 bits less whole numbers, what is rounded to 8 bits: tried for all of them (expr/bytes.h).
__device__ __forceinline__ float sum_of_bytes(float a, float b, float by_a, float by_b) { return fmaf(a, by_a, __fmul_rn(b, by_b)); }
__device__ __forceinline__ float product_of_bytes(float a, float b, float by, float) { return __fmul_rn(a * b, by); }
__device__ __forceinline__ float scaled_of_bytes(float a, float, float by, float) { return __fmul_rn(a, by); }
__device__ __forceinline__ float hard_swish_of_bytes(float a, float, float by, float gate) {
  return __fmul_rn(a * by, __saturatef(fmaf(a, gate, 0.5f)));
}

/// What is yet to be saturated to a T. Four of them become one word in two instructions (pack_saturated).
template <class T> struct Unsaturated {
  int value;
  __device__ __forceinline__ operator int() const { return value; }
  __device__ __forceinline__ operator T() const {
    constexpr int first = T(-1) < T(0) ? -128 : 0;
    return static_cast<T>(min(max(value, first), first + 255));
  }
};

/// quantized() of an x that is a number, with zero less than 2^21 away from 0: no bounds are needed before the addition.
template <class T, bool Relu> __device__ __forceinline__ Unsaturated<T> quantized_near(float x, float zero) {
  constexpr float first = T(-1) < T(0) ? -128.f : 0.f;
  const int odd = static_cast<int>(zero) & 1;
  if (Relu && zero != first) x = fmaxf(x, 0.f);                             // where it is, saturating does that
  // Nothing below 0 has to be told from another such: an instruction less.
  if (odd == 0 && zero >= 0 && (Relu || first == 0)) return {__float_as_int(counted(x, zero))};
  const float sum = x + (12582912.f + (zero - static_cast<float>(odd)));
  return {__float_as_int(sum) - (0x4b400000 - odd)};
}
}
