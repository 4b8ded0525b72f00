// Floating-point formats of 16 bits and fewer, described by numbers, so that one decoder and one encoder serve them all.
#pragma once

#include <cstdint>

#include "smelt/dtype.h"
#include "smelt/tensor.h"

namespace smelt {

struct MiniFloat {
  int exponent, mantissa;  // widths in bits; one sign bit comes before them
  int bias;
  enum Specials : uint8_t {
    ieee,               // infinities and NaNs in the largest exponent (f16, bf16, f8e5m2)
    nan_all_ones,       // no infinity; NaN is all ones behind the sign (f8e4m3fn)
    nan_negative_zero,  // no infinity; NaN is where -0 would be (the fnuz formats)
    none,               // every code is a number (f4e2m1)
  } specials;
};

/// The format of f16, bf16, the 8-bit floats with a mantissa, and f4e2m1; throws for others (f8e8m0 too, which has no sign).
const MiniFloat& mini_float(DType t);

double decode(const MiniFloat& f, uint32_t bits);
/// Rounds to nearest even. Beyond the largest number: that number when `saturate`, otherwise infinity, or NaN in a format
/// without one; a format without either always saturates. Infinity behaves as a number that is too large, but stays
/// infinity in f16 and bf16.
uint32_t encode(const MiniFloat& f, double value, bool saturate);

/// The same for a format of 8 bits, many numbers at a time.
void encode(const MiniFloat& f, const float* values, int64_t count, bool saturate, uint8_t* codes);

/// f8e8m0: powers of two from 2^-127 to 2^127, 255 is NaN; no sign.
double decode_e8m0(uint8_t bits);
/// The sign is dropped; zero becomes 2^-127 and infinity NaN, as ONNX's reference has it.
uint8_t encode_e8m0(float value, const CastOptions& options);

}  // namespace smelt
