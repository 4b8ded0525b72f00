// Winograd's transforms of 8-bit images and 32-bit sums, for *.simd.cpp sources and ops/conv/cpu_int8_winograd.cpp.
#pragma once

#include <cstdint>

namespace smelt::ops::conv {

/// A tile's 16 pixels, row-major; those outside the image lead to bytes of the zero point.
struct WinogradPixels {
  const uint8_t* pixels[16];
  int64_t channels;
  int32_t zero;
  bool is_signed;
};

struct WinogradBytesTable {
  /// Bᵀ d B of d = pixels - zero: position i's channels go to to + i · step, followed by a 0 where their number is odd. Up to 15
  /// more are written behind them.
  void (*input)(const WinogradPixels& p, int16_t* to, int64_t step);
  /// Aᵀ m A / 4 + start of the 16 positions `step` apart, modulo 2^32 before the division: the four outputs go to `outputs`.
  /// Works on whole vectors of 8 columns.
  void (*output)(const int32_t* sums, int64_t step, const int32_t* start, int64_t columns, int32_t* const* outputs);
};

}  // namespace smelt::ops::conv

namespace smelt::avx2 {
const ops::conv::WinogradBytesTable& winograd_bytes_table();
}  // namespace smelt::avx2
