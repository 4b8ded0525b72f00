// Inner loops of channels-last pooling: one pixel's channels, or a window's pixels. For *.simd.cpp sources and ops/pool/.
#pragma once

#include <cstdint>

namespace smelt::ops::pool {

struct RowFunctions {
  /// to[c] = the largest of pixels[0][c] … pixels[number - 1][c], NaN where there is one. `to` may be one of the pixels.
  void (*largest)(float* to, const float* const* pixels, int64_t number, int64_t channels);
  /// to[c] = (pixels[0][c] + … + pixels[number - 1][c]) · factor, added in that order. Likewise.
  void (*scaled_sum)(float* to, const float* const* pixels, int64_t number, float factor, int64_t channels);
  void (*scale)(float* to, float factor, int64_t channels);
};

}  // namespace smelt::ops::pool

namespace smelt::base {
const ops::pool::RowFunctions& pool_rows();
}
namespace smelt::avx2 {
const ops::pool::RowFunctions& pool_rows();
}
namespace smelt::avx512 {
const ops::pool::RowFunctions& pool_rows();
}
