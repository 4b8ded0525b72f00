// Rows of 8-bit integers and their 32-bit sums, for *.simd.cpp sources and the kernels of quantized operators.
#pragma once

#include <cstdint>

namespace smelt::ops::integer {

/// One row of 32-bit sums on its way to 8 bits, every step rounded as IEEE f32 rounds it:
///
///   v = float(sum) · scale + addend                    (a column's scale and addend)
///   q = clamp(round(v / divisor), low, high)           (low, high: the type's range less the zero point)
///   q = clamp(round((q · scale2 + (residual - residual_zero) · residual_scale) / divisor2), low2, high2)   with a residual
///   q = clamp(round((v + (residual - residual_zero) · residual_scale) / divisor2), low2, high2)   alone, where nothing rounds before it
///   y = q + zero
struct Requantization {
  const float* scales = nullptr;       // of the columns, as many as rows are long
  const float* multipliers = nullptr;  // scale · inverse
  const float* addends = nullptr;      // null: none
  bool same_for_all = false;           // each of the three is 16 times the number of every column
  float divisor = 1, low = 0, high = 0;
  bool adds_residual = false, residual_signed = false;
  bool rounds_before = true;  // what the residual is added to
  float scale2 = 1, residual_scale = 1, divisor2 = 1, low2 = 0, high2 = 0;
  int32_t residual_zero = 0;
  float inverse = 1, inverse2 = 1;  // of divisor and divisor2, for a guess that is right but next to halves
  int32_t zero = 0;                 // of the result
  const uint8_t* table = nullptr;   // 256 bytes: y is table[y] instead; null: none
};

/// Rows of sums side by side: columns [column, column + columns) of `rows` rows. `sums`, `start`, `residual` and `to` begin at that
/// column of the first row, and are so many elements apart from row to row. `start` is added to the sums first; null: nothing is.
struct SumRows {
  const int32_t *sums, *start;
  int64_t rows, column, columns;
  const uint8_t* residual;
  uint8_t* to;
  int64_t sums_step, residual_step, to_step;
};

/// A channels-last depthwise window over `pixels` pixels, whose taps are `step` bytes apart and whose sums `sums_step`: for each
/// channel c < channels, sums[c] = start[c] + Σ over taps of taps[t][c] · weight(t, c). Blocks of 16 channels begin at 0, 16, …; the last one ends with the channels. Weights are packed by pairs of taps: 2 · 16
/// 16-bit integers for each block.
struct DepthwisePixels {
  const uint8_t* const* taps;  // [pairs · 2], each of `channels` bytes: the first pixel's
  int64_t pixels, step, sums_step;
  int64_t pairs;
  int64_t channels;
  const int16_t* weights;  // [blocks][pairs][32]: w(2p, c), w(2p + 1, c) for lanes 0-3, 8-11, then 4-7, 12-15
  const int32_t* start;    // channels, at least 16
  int32_t* sums;           // the same
  bool is_signed;          // taps are i8
};

struct RowFunctions {
  /// to[i] = from[i] - zero, as 16-bit integers.
  void (*widen_u8)(int16_t* to, const uint8_t* from, int64_t n, int32_t zero);
  void (*widen_i8)(int16_t* to, const uint8_t* from, int64_t n, int32_t zero);
  void (*requantize)(const Requantization& r, const SumRows& rows);
  void (*depthwise)(const DepthwisePixels& p);
  /// The sums of `rows` rows, `step` apart, as floats where they lie, but row behind row: float(sum + start) · scale. Of `columns`
  /// columns each, as are `start` (null: nothing is added) and `scales`; `columns` is at most `step`.
  void (*to_floats)(float* sums, int64_t rows, int64_t columns, int64_t step, const int32_t* start, const float* scales);
  /// to[i] = clamp(round(from[i] / divisor), low, high) + zero; NaN gives 0.
  void (*quantize)(const Requantization& r, const float* from, int64_t n, uint8_t* to);
  /// The same to u8, of numbers that are NaN or whose quotients are within 2^15 of 0, for the whole range of u8.
  void (*quantize_within)(const Requantization& r, const float* from, int64_t n, uint8_t* to);
  /// to[i] = float(from[i] - zero) · scale.
  void (*dequantize_u8)(float* to, const uint8_t* from, int64_t n, int32_t zero, float scale);
  void (*dequantize_i8)(float* to, const uint8_t* from, int64_t n, int32_t zero, float scale);
  /// to[i] = table[from[i]].
  void (*look_up)(uint8_t* to, const uint8_t* from, int64_t n, const uint8_t* table);
  void (*max_u8)(uint8_t* to, const uint8_t* from, int64_t n);  // to = max(to, from)
  void (*max_i8)(uint8_t* to, const uint8_t* from, int64_t n);
  void (*add_u8)(int32_t* to, const uint8_t* from, int64_t n);  // to += from
  void (*add_i8)(int32_t* to, const uint8_t* from, int64_t n);
  void (*add_i32)(int32_t* to, const int32_t* from, int64_t n);
};

}  // namespace smelt::ops::integer

namespace smelt::avx2 {
/// RowFunctions::depthwise of the channels from `first` on, a multiple of 32.
void depthwise_from(const ops::integer::DepthwisePixels& p, int64_t first);
/// RowFunctions::depthwise with AVX-512, of 32 channels at a time; null where the CPU has none.
void (*wide_depthwise())(const ops::integer::DepthwisePixels& p);
const ops::integer::RowFunctions& integer_rows();
}  // namespace smelt::avx2
