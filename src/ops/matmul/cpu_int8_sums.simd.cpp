#include "ops/matmul/simd/int8_sums.h"

namespace smelt::SMELT_ISA {
namespace {

void flip(const uint8_t* __restrict from, uint8_t* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ 128;
}

/// Up to so many rows are added in 16 bits.
constexpr int64_t narrow_rows = 128, wide = 64;

void add_columns(const int8_t* __restrict b, int64_t step, int64_t rows, int64_t columns, int32_t* __restrict sums) {
  for (int64_t k = 0; k < rows; k += narrow_rows) {
    const int64_t end = rows < k + narrow_rows ? rows : k + narrow_rows;
    int64_t j = 0;
    for (; j + wide <= columns; j += wide) {
      int16_t part[wide] = {};
      for (int64_t r = k; r < end; ++r)
        for (int64_t i = 0; i < wide; ++i) part[i] = static_cast<int16_t>(part[i] + b[r * step + j + i]);
      for (int64_t i = 0; i < wide; ++i) sums[j + i] += part[i];
    }
    for (; j < columns; ++j)
      for (int64_t r = k; r < end; ++r) sums[j] += b[r * step + j];
  }
}

template <class T> int32_t row_sum(const T* a, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}

void correct(int32_t* __restrict to, const int32_t* __restrict start, const int32_t* __restrict zeros, int32_t sum, int64_t n) {
  for (int64_t j = 0; j < n; ++j) to[j] += start[j] - zeros[j] * sum;
}

}  // namespace

const ops::matmul::Int8SumsTable& int8_sums() {
  static constexpr ops::matmul::Int8SumsTable table = {flip, add_columns, row_sum<int8_t>, row_sum<uint8_t>, correct};
  return table;
}

}  // namespace smelt::SMELT_ISA
