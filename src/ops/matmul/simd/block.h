// Weights of 2, 4 or 8 bits with a scale for each block along K, a row for each column of the product; for *.simd.cpp sources and
// the drivers (ops/matmul/cpu_block_rows.cpp, cpu_block_panels.cpp).
//
// A register of 32-bit words holds lanes · 32 / bits weights, a "chunk". Masked where it lies in its word and read as an integer,
// weight j of a word is 2^(bits · j) times its number, which converts to a float exactly; the last one of a word is shifted down
// instead. So a's elements are spread beforehand: those that meet the words' weights j side by side, times 2^-(bits · j). A zero
// point costs nothing in the loop: it is taken off with the sums of a's blocks.
#pragma once

#include <cstdint>

#include "expr/simd/float_kind.h"

namespace smelt::ops::matmul {

/// Rows of weights, from the first of those asked for on.
struct BlockWeights {
  int bits = 4;            // 2, 4, 8
  bool is_signed = false;  // then read as unsigned ones, 2^(bits - 1) more
  int64_t block = 32;      // weights of a scale: a power of two, 16 or more
  int64_t k = 0;           // weights of a row that count
  const uint8_t* q = nullptr;
  int64_t q_step = 0;  // bytes from row to row
  simd::FloatKind scale_kind = simd::FloatKind::f32;
  const void* scales = nullptr;
  int64_t blocks = 0;              // scales, and zero points, from row to row
  const uint8_t* zeros = nullptr;  // of the numbers read as unsigned; null: `zero` is that of all
  int zero = 0;
  int taken = 0;  // off every number in what add() sums: so much less of a zero point is left
};

/// The rows from `column` on.
[[gnu::always_inline]] inline BlockWeights block_weights_at(BlockWeights w, int64_t column) {
  w.q += column * w.q_step;
  w.scales = static_cast<const char*>(w.scales) + column * w.blocks * (w.scale_kind == simd::FloatKind::f32 ? 4 : 2);
  if (w.zeros) w.zeros += column * w.blocks;
  return w;
}

/// One way to multiply some rows of a: as floats, or rounded to 8 bits.
struct BlockTable {
  /// How many of the rows that are left add() takes at a time; no more than block_rows.
  int (*rows_of)(int64_t left);
  /// What add() takes off every number.
  int (*taken)(int bits);
  /// Whether add() takes off a zero point that all blocks have, so that start() is for those that differ.
  bool takes_common_zero;
  /// Elements of K in a unit of a row, floats of a row as add() reads it.
  int64_t (*unit)(const BlockWeights& w);
  int64_t (*row_floats)(const BlockWeights& w);
  /// A row of w.k elements as add() reads it; where `sums` is given, what start() wants of its blocks.
  void (*spread)(const BlockWeights& w, const float* a, float* to, float* sums);
  /// y[m][j] = -Σ over blocks of scale · zero point · a_sums[m][block], for `columns` rows of w. Rows of a_sums are sums_step apart;
  /// memory: 4 · w.blocks + block_memory floats.
  void (*start)(const BlockWeights& w, int64_t columns, const float* a_sums, int64_t sums_step, int rows, float* y,
                int64_t y_step, float* memory);
  /// y[m][j] += Σ over elements [from, to) of K of a[m] · scale · number, in spread rows of a that are a_step apart; `from` begins a
  /// unit and a block, `to` too or is w.k. `a` is the first row's begin.
  void (*add)(const BlockWeights& w, int64_t columns, int64_t from, int64_t to, const float* a, int64_t a_step, int rows,
              float* y, int64_t y_step, float* memory);
};
inline constexpr int block_rows = 4;
/// Of the memory of start() and add(): floats behind four for each block.
inline constexpr int64_t block_memory = 192;

/// Elements [from, to) of K of `columns` rows of w as a panel of the indirect product: to - from rows of `width` (8 or 16) floats,
/// with zeros behind the columns. `from` begins a word.
using BlockPanel = void (*)(const BlockWeights& w, int64_t columns, int64_t width, int64_t from, int64_t to, float* panel);

}  // namespace smelt::ops::matmul

namespace smelt::base {
const ops::matmul::BlockTable& block_product_table();
extern const ops::matmul::BlockPanel block_panel;
}  // namespace smelt::base
namespace smelt::avx2 {
const ops::matmul::BlockTable& block_product_table();
const ops::matmul::BlockTable& block_bytes_table();
extern const ops::matmul::BlockPanel block_panel;
}  // namespace smelt::avx2
namespace smelt::avx512 {
const ops::matmul::BlockTable& block_bytes_table();  // needs AVX512-VNNI
}
