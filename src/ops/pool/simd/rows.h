// Inner loops of channels-last pooling: one pixel's channels at a time. For *.simd.cpp sources and ops/pool/.
#pragma once

#include <cstdint>

namespace smelt::ops::pool {

struct RowFunctions {
  /// to[c] = max(to[c], from[c]), a NaN on either side wins.
  void (*max)(float* to, const float* from, int64_t channels);
  void (*add)(float* to, const float* from, int64_t channels);
  void (*scale)(float* to, float factor, int64_t channels);
};

}  // namespace smelt::ops::pool

namespace smelt::base {
const ops::pool::RowFunctions& pool_rows();
}
namespace smelt::avx2 {
const ops::pool::RowFunctions& pool_rows();
}
