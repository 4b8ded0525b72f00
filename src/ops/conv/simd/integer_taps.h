// Lines of integers of 16 bits, folded by lists of taps.
#pragma once

#include <cstdint>

namespace smelt::ops {

inline constexpr int64_t integer_taps_block = 32;  // elements: lines are readable up to a multiple of it

/// Sums of places that lie side by side, for some results: to[m · to_step + o] = Σ over taps j of weight j of result m ·
/// from[offsets[j] + o] for o < places, `adds`: to that is added. pairs[m · pairs_step + k] holds the weights 2 k and 2 k + 1, each between -255 and
/// 255, in its lower and its upper half; offsets has two for each of the `count` pairs. Sums wrap.
struct TapSums {
  const int16_t* from;
  const int64_t* offsets;
  const int32_t* pairs;
  int64_t pairs_step, count;
  bool adds;
  int64_t results, places;
  int32_t* to;
  int64_t to_step;
};

/// Rows of bytes less a zero point, each taken apart by the remainders of its rows and columns: row r, column c of the padded image go to
/// to[(r mod stride_y · stride_x + c mod stride_x) · plane + r / stride_y · pitch + c / stride_x].
struct WidenedRows {
  const uint8_t* x;
  bool is_signed;
  int32_t zero;
  int64_t rows, columns, x_row, x_column;  // x_row, x_column: bytes from one to the next
  int64_t first_row, first_column;         // of the padded image
  int64_t stride_y, stride_x, plane, pitch;
  int16_t* to;
};

struct IntegerTaps {
  void (*fold)(const TapSums& sums);
  void (*widen)(const WidenedRows& rows);
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::IntegerTaps& integer_taps();
}
namespace smelt::avx2 {
const ops::IntegerTaps& integer_taps();
}
namespace smelt::avx512 {
const ops::IntegerTaps& integer_taps();
}
