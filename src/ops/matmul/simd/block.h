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

inline constexpr int block_rows = 4;  // of A at a time

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
};

/// The rows from `column` on.
[[gnu::always_inline]] inline BlockWeights block_weights_at(BlockWeights w, int64_t column) {
  w.q += column * w.q_step;
  w.scales = static_cast<const char*>(w.scales) + column * w.blocks * (w.scale_kind == simd::FloatKind::f32 ? 4 : 2);
  if (w.zeros) w.zeros += column * w.blocks;
  return w;
}

struct BlockTable {
  /// Floats that spread() writes, elements of K in a chunk.
  int64_t (*spread_floats)(int bits, int64_t k);
  int64_t (*chunk)(int bits);
  /// A row of k elements as add() reads it.
  void (*spread)(int bits, const float* a, int64_t k, float* to);
  /// y[m][j] = -Σ over blocks of scale · zero point · a_sums[m][block], for `columns` rows of w. Rows of a_sums are w.blocks apart;
  /// memory: 2 · w.blocks + 64 floats.
  void (*start)(const BlockWeights& w, int64_t columns, const float* a_sums, int rows, float* y, int64_t y_step, float* memory);
  /// y[m][j] += Σ over elements [from, to) of K of a[m] · scale · number, in spread rows of a that are a_step apart; `from` begins a
  /// chunk and a block, `to` too or is w.k.
  void (*add)(const BlockWeights& w, int64_t columns, int64_t from, int64_t to, const float* a, int64_t a_step, int rows,
              float* y, int64_t y_step, float* memory);
  /// Elements [from, to) of K of `columns` rows of w as a panel of the indirect product: to - from rows of `width` (8 or 16) floats,
  /// with zeros behind the columns. `from` begins a word.
  void (*panel)(const BlockWeights& w, int64_t columns, int64_t width, int64_t from, int64_t to, float* panel);
};

}  // namespace smelt::ops::matmul

namespace smelt::base {
const ops::matmul::BlockTable& block_product_table();
}
namespace smelt::avx2 {
const ops::matmul::BlockTable& block_product_table();
}
