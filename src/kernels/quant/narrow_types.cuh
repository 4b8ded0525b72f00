// Numbers of 8 bits and fewer that CUDA C++ has no type for, as codes. A byte has several codes of fewer bits, the first in the
// lowest bits.
//
//   decode(code)             the number, exactly
//   encode(x, saturate)      rounds to nearest even. Beyond the largest number: that number if `saturate`, otherwise infinity, or
//                            NaN in a format without infinity. A double or an integer is first rounded to odd in float, which
//                            does not change the result.
//
// The formats and their rules are those of src/base/minifloat.h.
#pragma once

#include "common/convert.cuh"

enum Specials { ieee, nan_all_ones, nan_negative_zero, no_specials };

template <int Exponent, int Mantissa, int Bias, Specials Kind> struct MiniFloat {
  static constexpr u32 magnitude = (1u << (Exponent + Mantissa)) - 1, sign = magnitude + 1;
  static constexpr u32 top_exponent = (1u << Exponent) - 1;
  static constexpr u32 largest = Kind == ieee ? (top_exponent << Mantissa) - 1 : Kind == nan_all_ones ? magnitude - 1 : magnitude;

  /// 2^e, of a normal float.
  static __device__ __forceinline__ float power(int e) { return __uint_as_float(static_cast<u32>(e + 127) << 23); }
  static __device__ __forceinline__ u32 nan(u32 negative) {
    if (Kind == nan_negative_zero) return sign;
    if (Kind == nan_all_ones) return negative | magnitude;
    if (Kind == no_specials) return negative ^ sign;
    return negative | (top_exponent << Mantissa) | (1u << (Mantissa - 1));
  }
  static __device__ __forceinline__ float decode(u32 code) {
    const u32 exponent = (code & magnitude) >> Mantissa, fraction = code & ((1u << Mantissa) - 1);
    const float not_a_number = __uint_as_float(0x7fc00000u), infinity = __uint_as_float(0x7f800000u);
    if (Kind == nan_negative_zero && code == sign) return not_a_number;
    if (Kind == nan_all_ones && (code & magnitude) == magnitude) return not_a_number;
    float value = static_cast<float>(exponent ? fraction | (1u << Mantissa) : fraction) *
                  power(static_cast<int>(exponent ? exponent : 1) - Bias - Mantissa);
    if (Kind == ieee && exponent == top_exponent) value = fraction ? not_a_number : infinity;
    return code & sign ? -value : value;
  }
  static __device__ __forceinline__ u32 encode(float x, bool saturate) {
    const u32 bits = __float_as_uint(x), negative = bits >> 31 ? sign : 0;
    const float a = fabsf(x);
    if (x != x) return nan(negative);
    u32 code = 0;
    const int lowest = 1 - Bias, e = static_cast<int>(bits >> 23 & 255) - 127, exponent = e < lowest ? lowest : e;
    if (exponent > Bias + (1 << Exponent)) {
      code = largest + 1;
    } else {
      // Units in the last place. A carry increments the exponent, which is right.
      const float units = rintf(a * power(Mantissa - exponent));
      code = (static_cast<u32>(exponent + Bias - 1) << Mantissa) + static_cast<u32>(units);
    }
    if (code > largest) {
      if (saturate || Kind == no_specials) code = largest;
      else if (Kind == ieee) code = largest + 1;
      else return nan(negative);
    }
    return code == 0 && Kind == nan_negative_zero ? 0 : negative | code;
  }
};

enum Rounding { round_up, round_down, round_nearest };

/// Powers of two, without a sign; code 255 is NaN.
template <Rounding How> struct Exponents {
  static __device__ __forceinline__ float decode(u32 code) {
    return __uint_as_float(code == 255 ? 0x7fc00000u : code ? code << 23 : 0x00400000u);
  }
  static __device__ __forceinline__ u32 encode(float x, bool saturate) {
    const u32 bits = __float_as_uint(x), exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
    if (exponent == 255) return 255;
    const bool above = How == round_up ? fraction != 0
                       : How == round_nearest && (fraction > 0x400000 || (fraction == 0x400000 && exponent > 0));
    return exponent + (above && !(saturate && exponent == 254));
  }
};

template <int Width, bool Signed> struct SmallInteger {
  static __device__ __forceinline__ float decode(u32 code) {
    return static_cast<float>(Signed && code >> (Width - 1) ? static_cast<int>(code) - (1 << Width) : static_cast<int>(code));
  }
  static __device__ __forceinline__ u32 encode(float x, bool) {
    return static_cast<u32>(static_cast<i64>(x)) & ((1u << Width) - 1);
  }
};

/// Code i of packed codes of Width bits.
template <int Width> __device__ __forceinline__ u32 code_at(const u8* x, u32 i) {
  constexpr u32 per_byte = 8 / Width;
  return x[i / per_byte] >> (i % per_byte * Width) & ((1u << Width) - 1);
}

/// x as a float that rounds to a small format as x does.
template <class T> __device__ __forceinline__ float as_float(T x) {
  if constexpr (is_half<T>) return f32(x);
  else if constexpr (is_same_type<T, float>) return x;
  else return to_odd(static_cast<double>(x));
}
/// To integers by truncation; NaN gives 0, and what lies beyond the type's range its end, as on the host.
template <class T> __device__ __forceinline__ T from_float(float x) {
  if constexpr (is_same_type<T, bool>) return x != 0;
  else if constexpr (is_real<T>) return narrowed<T>(x);
  else {
    constexpr bool has_sign = static_cast<T>(-1) < static_cast<T>(0);
    constexpr T smallest = has_sign ? static_cast<T>(T(1) << (8 * sizeof(T) - 1)) : T(0), largest = static_cast<T>(~smallest);
    constexpr float half = static_cast<float>(1ull << (8 * sizeof(T) - 1)), top = has_sign ? half : 2 * half;
    if (x != x) return T(0);
    if (x >= top) return largest;
    return x <= (has_sign ? -half : 0.f) ? smallest : static_cast<T>(x);
  }
}
