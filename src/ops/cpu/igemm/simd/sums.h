// A tile's sums in registers, of F32Lanes or I32Lanes: what they start from and where they are left. For *.simd.cpp sources
// compiled with AVX2.
#pragma once

#include "ops/cpu/igemm/simd/lanes.h"
#include "ops/cpu/igemm/simd/tile.h"

namespace smelt::avx2 {

/// Whether all rows of a part read zeros: a window's tap outside the image for each of them.
template <int rows> inline __attribute__((always_inline)) bool adds_nothing(const float* const* row, const float* zeros) {
  if (row[0] != zeros) return false;
  for (int r = 1; r < rows; ++r)
    if (row[r] != zeros) return false;
  return true;
}

template <class Lanes, int rows, int vectors> struct Sums {
  using Vector = typename Lanes::Vector;
  Vector v[rows][vectors];

  __attribute__((always_inline)) void start(const ops::igemm::Tile& t) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) {
        if (t.resume)
          v[r][j] = Lanes::load(t.sums + r * t.sums_stride + 8 * j);
        else
          v[r][j] = t.bias ? Lanes::load(t.bias + 8 * j) : Vector{};
      }
    }
  }

  __attribute__((always_inline)) void leave(const ops::igemm::Tile& t) const {
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) Lanes::store(t.sums + r * t.sums_stride + 8 * j, v[r][j]);
    }
  }
};

}  // namespace smelt::avx2
