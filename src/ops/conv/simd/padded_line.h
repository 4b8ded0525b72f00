// A line of a convolution over a copy of the image with its padding in place, for *.simd.cpp sources and the driver (cpu_indirect.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops::conv {

struct PaddedLine {
  const float* image;    // where the first pixel's window begins
  int64_t step;          // elements from one pixel's window to the next one's
  int64_t row;           // elements from one row of taps to the next
  int64_t rows;          // of taps
  int64_t length;        // elements of a row of taps, side by side
  const float* weights;  // panels of 16 columns, the last one of 8 up to 8 (ops/cpu/igemm/igemm.h)
  const float* bias;     // of all columns, and as many as a panel has behind the last; null: none
  int64_t columns;
  float* y;
  int64_t y_step;  // elements from one pixel to the next
  int64_t pixels;
  float low, high;  // bounds of the results
};

}  // namespace smelt::ops::conv

namespace smelt::avx512 {
/// Sums the same products in the same order as the tiles of ops/cpu/igemm do: bits do not depend on which of them runs.
void convolve_line(const ops::conv::PaddedLine& line);
}  // namespace smelt::avx512
