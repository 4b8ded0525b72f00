// Panels of the indirect product's right operand, packed in a run; for *.simd.cpp sources and drivers.
#pragma once

#include <cstdint>

namespace smelt::avx2 {
/// k rows of `width` (8 or 16) floats: alpha times element (i, j) at from[i * row + j * column] for j < used, zeros behind.
void pack_panel(float* to, int64_t width, const float* from, int64_t row, int64_t column, int64_t k, int64_t used, float alpha);
}  // namespace smelt::avx2
