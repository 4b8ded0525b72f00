// Floats to bytes, for *.simd.cpp sources; callers take them from the table of rows (ops/cpu/integer/simd/rows.h).
#pragma once

#include "ops/cpu/integer/simd/rows.h"

namespace smelt::avx2 {

/// As ops::integer::RowFunctions says.
void quantize(const ops::integer::Requantization& r, const float* from, int64_t n, uint8_t* to);
void quantize_within(const ops::integer::Requantization& r, const float* from, int64_t n, uint8_t* to);
/// The first by the widest registers of this processor.
decltype(&quantize) widest_quantize();

}  // namespace smelt::avx2
