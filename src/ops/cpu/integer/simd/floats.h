// Rows of 32-bit sums to floats, for *.simd.cpp sources and the pass over them (ops/cpu/integer/float_pass.h).
#pragma once

#include <cstdint>

#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops::integer {

/// `rows` rows of `columns` sums, `sums_step` apart, every step rounded as IEEE f32 rounds it:
///
///   v = float(sum + start) · scale · factor + addend + residual;   to = end(v)
///
/// start, scale and addend are the column's, factor the column's or one for all; null: that step is left out.
struct FloatRows {
  const int32_t *sums, *start;
  int64_t rows, columns, sums_step;
  const float *scales, *factors, *addends, *residual;
  bool has_one_factor;
  int64_t residual_step;
  float* to;
  int64_t to_step;
  igemm::Ending end;
};

}  // namespace smelt::ops::integer

namespace smelt::avx2 {
void floats_of_sums(const ops::integer::FloatRows& r);
}  // namespace smelt::avx2
