// The transforms of a Winograd convolution F(2 × 2, 3 × 3), for *.simd.cpp sources and the driver (ops/conv/cpu_winograd.cpp).
#pragma once

#include <cstdint>

#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::ops::conv {

/// Where one tile's outputs go: 2 × 2 pixels, row by row. A null pixel is not written.
struct WinogradOutput {
  const float* sums;  // 16 positions, `step` apart, each `columns` long
  int64_t step, columns;
  const float* bias;  // null: none
  float* y[4];
  const float* residual[4];  // added before `end`; null: none
  igemm::Ending end;
};

struct WinogradTable {
  /// Bᵀ d B of a tile of 4 × 4 pixels: position i of channel c goes to to[i * step + c].
  void (*input)(const float* const* pixels, int64_t channels, float* to, int64_t step);
  /// Aᵀ m A.
  void (*output)(const WinogradOutput& o);
};

}  // namespace smelt::ops::conv

namespace smelt::avx2 {
const ops::conv::WinogradTable& winograd_table();
}
