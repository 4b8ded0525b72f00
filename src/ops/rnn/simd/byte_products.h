// Products of rows of bytes with packed panels of bytes, for quantised recurrent networks; for *.simd.cpp sources and the driver
// (ops/rnn/cpu_recurrent.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops {

inline constexpr int byte_gates = 4;  // of an LSTM, the only recurrent network that is quantised

/// A row of bytes with its range: x ≈ (q - zero) · scale.
struct QuantizedRow {
  float scale = 1;
  int32_t zero = 0, sum = 0;  // of all q
};

/// Where products of neighbouring bytes are added in 16 bits, two weights of one sign that sum to more than 128 might not fit. A gate's part
/// of a group that has such is the sum of two: one in the panel, and one here. Without these all are added in 32 bits, in twice the time.
struct SplitGroups {
  const int32_t* begin = nullptr;   // [count · byte_gates + 1]: where each panel's gates begin in what follows; null: none
  const int32_t* groups = nullptr;  // which group of K
  const int8_t* weights = nullptr;  // [lanes][4] of each
};

/// sums[row][panel] = start[panel] + (a[row] - a_zero) · (panel - b_zero) · a_scale · b_scale. Panels hold the values of `group`
/// elements of K side by side, zeros behind the last: [groups of k][byte_gates][lanes][group] of i8.
struct BytePanelProduct {
  int64_t groups, count, rows;
  const int8_t* panels;
  const float* start;          // [count][byte_gates · lanes]; null: 0
  const float* scales;         // of B's columns, like `start`
  const int32_t* zeros;        // of B's columns
  const int32_t* offsets;      // Σ over k of (b - b_zero) of each column
  const void* a;               // rows of whole groups, as ByteProducts::quantize writes them
  int64_t a_stride;            // bytes
  const QuantizedRow* a_rows;  // of each row, a_row_step apart: 0 where one range holds for all, with `sum` in row_sums
  int64_t a_row_step;
  const int32_t* row_sums;  // null: those in a_rows
  float* sums;
  int64_t sums_stride;  // floats
  SplitGroups split;    // of ByteProducts::adds_in_16_bits
};

/// The products of one instruction set. `group` elements of K, `value_bytes` each in a row, are multiplied and added at once.
struct ByteProducts {
  int64_t lanes, group, value_bytes;
  void (*product)(const BytePanelProduct& p);
  /// Widens [low, high] to hold n values.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  /// q = rint(x / scale) + zero within 0 … 255; their sum.
  int32_t (*quantize)(const float* x, int64_t n, float scale, int32_t zero, void* to);
  bool adds_in_16_bits = false;  // SplitGroups
};

}  // namespace smelt::ops

namespace smelt::base {
const ops::ByteProducts& byte_products();
}
namespace smelt::avx2 {
const ops::ByteProducts& byte_products();
/// With AVX-512's dot products of four bytes; only where the CPU has them (AVX512_VNNI, AVX512VL).
const ops::ByteProducts& byte_dot_products();
}  // namespace smelt::avx2
