// QuantizeStep tensors as 32-bit integers, and the way back.
#pragma once

#include <cstdint>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::ops {

/// The elements of an integer tensor minus its zero point, which is left out (0) or broadcasts to it; a 1-D zero point lies along
/// the axis with `trailing` axes behind it. Throws when it does not broadcast.
std::vector<int32_t> shifted(const Tensor& x, const Tensor& zero_point, size_t trailing = 0);

/// Smallest and largest value of an integer type of at most 32 bits; throws for other types.
struct IntRange {
  int64_t low = 0, high = 0;
};
IntRange int_range(DType t);

/// round(q) + zero_point, ties to even, clamped to the range. NaN gives 0, as programs and kernels give.
int32_t saturate(float q, int32_t zero_point, const IntRange& range);

/// The zero point of 8 bits without a sign for numbers of `low` <= 0 and up: round(-low / scale), saturated. An infinite range gives 0.
uint8_t dynamic_zero_point(float low, float scale);

/// The one value of a parameter that must have one element; throws naming `what`.
float scalar_float(const Tensor& t, const char* what);

}  // namespace smelt::ops
