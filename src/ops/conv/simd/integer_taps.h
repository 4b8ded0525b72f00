// Lines of integers of 16 bits, folded by lists of taps.
#pragma once

#include <cstdint>

namespace smelt::ops {

inline constexpr int64_t integer_taps_block = 16;  // elements: lines are readable up to a multiple of it

struct IntegerTaps {
  /// to[o] = Σ over taps j of weight j · from[offsets[j] + o] for o < n, `adds`: to[o] += that. pairs[k] holds the weights 2 k and 2 k + 1,
  /// each between -255 and 255, in its lower and its upper half; offsets has two for each of the `count` pairs. Sums wrap.
  void (*fold)(const int16_t* from, const int64_t* offsets, const int32_t* pairs, int64_t count, bool adds, int64_t n,
               int32_t* to);
  /// to[i] = x[i · step] - zero for bytes.
  void (*widen)(const uint8_t* x, int64_t step, bool is_signed, int32_t zero, int64_t n, int16_t* to);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::IntegerTaps& integer_taps();
}
namespace smelt::avx2 {
const ops::IntegerTaps& integer_taps();
}
