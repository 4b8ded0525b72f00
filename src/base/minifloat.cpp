#include "base/minifloat.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace smelt {

const MiniFloat& mini_float(DType t) {
  static constexpr MiniFloat f16{5, 10, 15, MiniFloat::ieee}, bf16{8, 7, 127, MiniFloat::ieee};
  static constexpr MiniFloat e4m3fn{4, 3, 7, MiniFloat::nan_all_ones}, e4m3fnuz{4, 3, 8, MiniFloat::nan_negative_zero};
  static constexpr MiniFloat e5m2{5, 2, 15, MiniFloat::ieee}, e5m2fnuz{5, 2, 16, MiniFloat::nan_negative_zero};
  static constexpr MiniFloat e2m1{2, 1, 1, MiniFloat::none};
  switch (t) {
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::f8e4m3fn: return e4m3fn;
    case DType::f8e4m3fnuz: return e4m3fnuz;
    case DType::f8e5m2: return e5m2;
    case DType::f8e5m2fnuz: return e5m2fnuz;
    case DType::f4e2m1: return e2m1;
    default: fail("{} is no small floating-point format", name(t));
  }
}

namespace {

uint32_t magnitude_mask(const MiniFloat& f) { return (1u << (f.exponent + f.mantissa)) - 1; }

/// Code of the largest number, without the sign.
uint32_t largest(const MiniFloat& f) {
  if (f.specials == MiniFloat::ieee) return (((1u << f.exponent) - 1) << f.mantissa) - 1;
  return magnitude_mask(f) - (f.specials == MiniFloat::nan_all_ones ? 1 : 0);
}

uint32_t nan_code(const MiniFloat& f, uint32_t sign) {
  if (f.specials == MiniFloat::nan_negative_zero) return magnitude_mask(f) + 1;
  if (f.specials == MiniFloat::nan_all_ones) return sign | magnitude_mask(f);
  if (f.specials == MiniFloat::none) return sign ^ (magnitude_mask(f) + 1);  // no NaN: a zero, as ONNX's reference gives
  return sign | (((1u << f.exponent) - 1) << f.mantissa) | (1u << (f.mantissa - 1));
}

}  // namespace

double decode(const MiniFloat& f, uint32_t bits) {
  const uint32_t sign = magnitude_mask(f) + 1, code = bits & magnitude_mask(f);
  const uint32_t exponent = code >> f.mantissa, fraction = code & ((1u << f.mantissa) - 1);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.specials == MiniFloat::nan_negative_zero && (bits & (sign | code)) == sign) return nan;
  if (f.specials == MiniFloat::nan_all_ones && code == magnitude_mask(f)) return nan;
  if (f.specials == MiniFloat::ieee && exponent == (1u << f.exponent) - 1) {
    if (fraction) return nan;
    return bits & sign ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  const uint32_t significand = exponent ? fraction | (1u << f.mantissa) : fraction;
  const int scale = static_cast<int>(std::max(exponent, 1u)) - f.bias - f.mantissa;
  const double value = std::ldexp(static_cast<double>(significand), scale);
  return bits & sign ? -value : value;
}

uint32_t encode(const MiniFloat& f, double value, bool saturate) {
  const uint32_t sign = std::signbit(value) ? magnitude_mask(f) + 1 : 0;
  if (std::isnan(value)) return nan_code(f, sign);
  const double a = std::fabs(value);
  uint32_t code = 0;
  if (std::isinf(a)) {
    code = largest(f) + 1;
  } else if (a != 0) {
    int e;
    std::frexp(a, &e);                                 // a in [2^(e-1), 2^e)
    const int exponent = std::max(e - 1, 1 - f.bias);  // subnormal numbers share the smallest exponent
    if (exponent > f.bias + (1 << f.exponent)) {
      code = largest(f) + 1;
    } else {
      // Rounded to an integer of units in the last place; a carry runs into the exponent field as it should.
      const double units = std::nearbyint(std::ldexp(a, f.mantissa - exponent));
      code = (static_cast<uint32_t>(exponent + f.bias - 1) << f.mantissa) + static_cast<uint32_t>(units);
    }
  }
  if (code > largest(f)) {
    if (saturate || f.specials == MiniFloat::none)
      code = largest(f);
    else if (f.specials == MiniFloat::ieee)
      code = largest(f) + 1;
    else
      return nan_code(f, sign);
  }
  if (code == 0 && f.specials == MiniFloat::nan_negative_zero) return 0;
  return sign | code;
}

void encode(const MiniFloat& f, const float* values, int64_t count, bool saturate, uint8_t* codes) {
  // Without a branch: numbers are rounded by an addition to their bits, which may run into the exponent, those that are subnormal in
  // the format by an addition of 2^23, whose last bits count its smallest number.
  const int dropped = 23 - f.mantissa;
  const uint32_t sign_bit = magnitude_mask(f) + 1, half = (1u << (dropped - 1)) - 1;
  const auto rebased = static_cast<uint32_t>(127 - f.bias) << f.mantissa;
  const auto least_normal = static_cast<uint32_t>(128 - f.bias) << 23;
  const float to_units = std::ldexp(1.0f, f.bias - 1 + f.mantissa);
  const uint32_t most = largest(f), nan = nan_code(f, 0);
  const uint32_t beyond = saturate || f.specials == MiniFloat::none ? most : f.specials == MiniFloat::ieee ? most + 1 : nan;
  const bool one_zero = f.specials == MiniFloat::nan_negative_zero;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]), magnitude = bits & 0x7fffffff;
    const uint32_t normal = ((magnitude + half + ((magnitude >> dropped) & 1)) >> dropped) - rebased;
    const float units = std::bit_cast<float>(std::min(magnitude, least_normal)) * to_units + 0x1p23f;
    uint32_t code = magnitude < least_normal ? std::bit_cast<uint32_t>(units) - 0x4b000000u : normal;
    code = code > most ? beyond : code;
    code = magnitude > 0x7f800000 ? nan : code;
    const uint32_t sign = bits >> 31 ? sign_bit : 0;
    codes[i] = static_cast<uint8_t>(one_zero && code == 0 ? 0 : code | sign);
  }
}

double decode_e8m0(uint8_t bits) { return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127); }

uint8_t encode_e8m0(float value, const CastOptions& options) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23) & 255, fraction = bits & 0x7fffff;
  if (exponent == 255) return 255;
  bool up = false;
  if (options.rounding == CastOptions::up) up = fraction != 0;
  // A tie goes to the even one of a significand of no bits: up, unless the number is subnormal.
  if (options.rounding == CastOptions::nearest) up = fraction > 0x400000 || (fraction == 0x400000 && exponent > 0);
  if (up && options.saturate && exponent == 254) up = false;
  return static_cast<uint8_t>(exponent + (up ? 1 : 0));
}

}  // namespace smelt
