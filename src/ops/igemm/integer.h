// Integer products through igemm: 16-bit pairs in, 32-bit sums out.
#pragma once

#include <cstdint>

#include "ops/igemm/igemm.h"

namespace smelt::ops::igemm {

/// Packs k pairs by n columns: value(pair, column, half) is B's element at row 2 · pair + half.
template <class F> void pack_pairs(int16_t* to, int64_t k, int64_t n, F&& value) {
  for (int64_t column = 0; column < n; column += tile_columns) {
    const int64_t width = n - column <= 8 ? 8 : tile_columns;
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < width; ++j) {
        for (int half = 0; half < 2; ++half) *to++ = column + j < n ? value(p, column + j, half) : int16_t{0};
      }
    }
  }
}

}  // namespace smelt::ops::igemm
