// Products of bytes with few elements to a sum; for *.simd.cpp sources and the driver (ops/matmul/cpu_int8_shallow.cpp).
#pragma once

#include <cstdint>

namespace smelt::ops::matmul {

inline constexpr int64_t shallow_k = 16;         // the deepest
inline constexpr int64_t shallow_quads_k = 48;   // the deepest by quads
inline constexpr int64_t shallow_columns = 512;  // at a time: with their pairs they stay in the L1 cache
/// 16-bit integers of the pairs of so many columns.
inline constexpr int64_t shallow_panel = shallow_k * shallow_columns;
/// Bytes of their quads.
inline constexpr int64_t shallow_quads_panel = shallow_quads_k * shallow_columns;

/// Some columns of the right operand: element [k, n] at from[k · row + n · column].
struct ShallowColumns {
  const uint8_t* from;
  int64_t k, count, row, column;
  bool is_signed;
  const int32_t* zeros;  // by column
};

struct Int8ShallowTable {
  /// Pairs along K less their zero points: panels of 16 columns, [panel][pair][column][half]; zeros behind the last column.
  void (*pack)(int16_t* panel, const ShallowColumns& c);
  /// sums[m · stride + j] = start[j] + Σ over pairs of a · b. a: rows of (k + 1) / 2 pairs. `start` has 16 numbers behind the last.
  void (*multiply)(const int32_t* a, int64_t rows, const int16_t* panel, int64_t pairs, int64_t columns, const int32_t* start,
                   int32_t* sums, int64_t stride);
  /// The same by dot products of four bytes, where there are instructions for them; else null. Panels of 16 columns,
  /// [panel][quad][column][byte], of signed bytes: those of unsigned ones less 128. starts[j]: start[j] less a_zero · Σ of column j.
  void (*pack_quads)(int8_t* panel, const ShallowColumns& c, const int32_t* start, int32_t a_zero, int32_t* starts) = nullptr;
  /// a: rows of (k + 3) / 4 quads of unsigned bytes.
  void (*multiply_quads)(const int32_t* a, int64_t rows, const int8_t* panel, int64_t quads, int64_t columns,
                         const int32_t* starts, int32_t* sums, int64_t stride) = nullptr;
};

}  // namespace smelt::ops::matmul

namespace smelt::base {
const ops::matmul::Int8ShallowTable& int8_shallow();
}
namespace smelt::avx2 {
const ops::matmul::Int8ShallowTable& int8_shallow();
}
namespace smelt::avx512 {
const ops::matmul::Int8ShallowTable& int8_shallow();
}
