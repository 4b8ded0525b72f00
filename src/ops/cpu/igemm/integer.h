// Integer products through igemm: 16-bit pairs in, 32-bit sums out.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/igemm/igemm.h"
#include "smelt/tensor.h"

namespace smelt::ops::igemm {

/// Packs k pairs by n columns of 16 or, for Schedule::narrow, of 8 bits: value(pair, column, half) is B's element at row 2 · pair
/// + half.
template <class T, class F> void pack_pairs(T* to, int64_t k, int64_t n, F&& value) {
  for (int64_t column = 0; column < n; column += tile_columns) {
    const int64_t width = n - column <= 8 ? 8 : tile_columns;
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < width; ++j) {
        for (int half = 0; half < 2; ++half) *to++ = column + j < n ? static_cast<T>(value(p, column + j, half)) : T{};
      }
    }
  }
  std::fill_n(to, 2 * packed_floats(0, n), T{});
}

/// Widening a panel costs a multiplication or two for each of its elements: it pays with more rows than this. Tiles of fewer widen what
/// they read, where there are none of AVX-512: the matrix has half the bytes.
inline constexpr int64_t fewest_rows_to_widen = 2 * tile_rows;

/// The elements of packed pairs that pack(to) writes, `count` of 32 bits, as a tensor of 8 or 16 bits.
template <class F> Tensor packed_pairs(bool narrow, int64_t count, F&& pack) {
  Tensor t = Tensor::empty(narrow ? DType::i8 : DType::i16, {2 * count});
  if (narrow)
    pack(t.data<int8_t>());
  else
    pack(t.data<int16_t>());
  return t;
}

}  // namespace smelt::ops::igemm
