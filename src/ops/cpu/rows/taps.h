// Operators that take scattered pixels of every channel (GridSample, RoiAlign): a copy of the image with the channels side by side
// lets one list of places serve all of them, a register of channels at a time.
#pragma once

#include <algorithm>

#include "ops/cpu/rows/simd/taps.h"
#include "ops/cpu/transpose_block.h"

namespace smelt::ops {

const TapSimd& tap_simd();

/// Floats of a pixel with all its channels.
inline int64_t tap_channels(int64_t channels) { return (channels + tap_block - 1) / tap_block * tap_block; }

/// to[i · to_row + j] = from[j · from_row + i], i < rows and j < columns.
template <class To, class From>
void transpose(To* to, int64_t to_row, const From* from, int64_t from_row, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i += block_side)
    for (int64_t j = 0; j < columns; j += block_side) {
      if constexpr (std::is_same_v<To, From>) {
        if (i + block_side <= rows && j + block_side <= columns) {
          transpose_block(to + i * to_row + j, to_row, from + j * from_row + i, from_row);
          continue;
        }
      }
      for (int64_t u = i; u < std::min(rows, i + block_side); ++u)
        for (int64_t v = j; v < std::min(columns, j + block_side); ++v)
          to[u * to_row + v] = static_cast<To>(static_cast<float>(from[v * from_row + u]));
    }
}

}  // namespace smelt::ops
