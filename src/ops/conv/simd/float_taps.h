// Lines of floats, folded by lists of taps.
#pragma once

#include <cstdint>

namespace smelt::ops {

inline constexpr int64_t float_taps_slack = 128;  // floats behind the last place that are read
inline constexpr int64_t float_taps_lanes = 16;   // results are written up to a multiple of it
inline constexpr int64_t float_taps_results = 4;  // of a block of weights

/// to[m · to_step + o] = Σ over taps j of weight j of result m · from[offsets[j] + o] for o < places. weights: of each four results, and
/// of those that are left, [tap][result].
struct FloatTapSums {
  const float* from;
  const int64_t* offsets;
  const float* weights;
  int64_t count, results, places;
  float* to;
  int64_t to_step;
};

struct FloatTaps {
  void (*fold)(const FloatTapSums& sums);
  /// to[i] = sums[i] + start, no less than `low` and no more than `high`; a NaN stays one.
  void (*end)(const float* sums, float start, float low, float high, int64_t n, float* to);
  /// to[i] = sums[i] + start, of whole numbers below 2^24; up to float_taps_lanes - 1 more are read and written.
  void (*whole)(const float* sums, int32_t start, int64_t n, int32_t* to);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::FloatTaps& float_taps();
}
namespace smelt::avx2 {
const ops::FloatTaps& float_taps();
}
namespace smelt::avx512 {
const ops::FloatTaps& float_taps();
}
