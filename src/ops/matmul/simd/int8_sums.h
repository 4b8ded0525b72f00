// Sums of bytes, and what zero points add to products of them: for *.simd.cpp sources and ops/matmul/.
#pragma once

#include <cstdint>

namespace smelt::ops::matmul {

struct Int8SumsTable {
  /// to[i] = from[i] ^ 128: signed bytes as unsigned ones 128 larger, and back.
  void (*flip)(const uint8_t* from, uint8_t* to, int64_t n);
  /// sums[j] += the sum of `rows` rows, `step` bytes apart, at column j.
  void (*columns)(const int8_t* b, int64_t step, int64_t rows, int64_t columns, int32_t* sums);
  int32_t (*row)(const int8_t* a, int64_t n);
  int32_t (*unsigned_row)(const uint8_t* a, int64_t n);
  /// to[j] += start[j] - zeros[j] · sum.
  void (*correct)(int32_t* to, const int32_t* start, const int32_t* zeros, int32_t sum, int64_t n);
};

/// Those of this processor.
const Int8SumsTable& int8_sums_table();

}  // namespace smelt::ops::matmul

namespace smelt::base {
const ops::matmul::Int8SumsTable& int8_sums();
}
namespace smelt::avx2 {
const ops::matmul::Int8SumsTable& int8_sums();
}
