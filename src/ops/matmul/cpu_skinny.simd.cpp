#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"
#include "ops/matmul/simd/skinny.h"

namespace smelt::SMELT_ISA {
namespace {

using simd::FloatKind;

/// y[m] += Σ over `depth` rows of b: y goes through memory once for all of them.
template <class H, int rows, int depth> SMELT_INLINE void add_rows(const H* b, int64_t b_step, int64_t columns, const float* a,
                                                                   int64_t a_step, float* y, int64_t y_step) {
  F32 factor[rows][depth];
  for (int m = 0; m < rows; ++m) {
    for (int d = 0; d < depth; ++d) factor[m][d] = splat(a[m * a_step + d]);
  }
  for_registers(columns, [&](int64_t j, int64_t count) {
    F32 from[depth];
    for (int d = 0; d < depth; ++d) from[d] = get(b + d * b_step + j, count);
    for (int m = 0; m < rows; ++m) {
      float* to = y + m * y_step + j;
      F32 v = get(static_cast<const float*>(to), count);
      for (int d = 0; d < depth; ++d) v = fma(factor[m][d], from[d], v);
      put(to, v, count);
    }
  });
}

template <class H, int rows> void across_rows(const H* b, int64_t b_step, int64_t k, int64_t columns, const float* a,
                                              int64_t a_step, float* y, int64_t y_step) {
  constexpr int depth = rows > 2 ? 2 : 4;
  for (int m = 0; m < rows; ++m) {
    for (int64_t j = 0; j < columns; ++j) y[m * y_step + j] = 0;
  }
  int64_t i = 0;
  for (; i + depth <= k; i += depth) add_rows<H, rows, depth>(b + i * b_step, b_step, columns, a + i, a_step, y, y_step);
  for (; i < k; ++i) add_rows<H, rows, 1>(b + i * b_step, b_step, columns, a + i, a_step, y, y_step);
}

/// Of rows of b that are short: a register's sums lie in lanes, and as many rows as there are lanes are turned instead, so that each column has
/// a lane. The last columns are those of the last whole register once more.
template <class H, int rows> void along_short_rows(const H* b, int64_t b_step, int64_t k, int64_t columns, const float* a,
                                                   int64_t a_step, float* y, int64_t y_step) {
  const H* end = b + (columns - 1) * b_step + k;
  for (int64_t j = 0; j < columns; j = j + lanes < columns && j + 2 * lanes > columns ? columns - lanes : j + lanes) {
    F32 sums[rows];
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) sums[m] = splat(0.0f);
    for_registers(k, [&](int64_t at, int64_t count) {
      F32 turned[lanes];
      SMELT_UNROLL
      for (int64_t r = 0; r < lanes; ++r) {
        const H* row = b + (j + r) * b_step + at;  // elements behind its last one are the next row's, and are left
        turned[r] = end - row >= lanes ? load(row) : get(row, count);
      }
      transpose(turned);
      if (count == lanes) {
        SMELT_UNROLL
        for (int64_t i = 0; i < lanes; ++i)
          for (int m = 0; m < rows; ++m) sums[m] = fma(splat(a[m * a_step + at + i]), turned[i], sums[m]);
      } else {
        for (int64_t i = 0; i < count; ++i)
          for (int m = 0; m < rows; ++m) sums[m] = fma(splat(a[m * a_step + at + i]), turned[i], sums[m]);
      }
    });
    SMELT_UNROLL
    for (int m = 0; m < rows; ++m) store(y + m * y_step + j, sums[m]);
  }
}

template <class H, int rows> void along_rows(const H* b, int64_t b_step, int64_t k, int64_t columns, const float* a,
                                             int64_t a_step, float* y, int64_t y_step) {
  constexpr int64_t short_row = 16 * rows;  // elements: beyond, to turn them takes longer than to add lanes
  if (k <= short_row && columns >= lanes) return along_short_rows<H, rows>(b, b_step, k, columns, a, a_step, y, y_step);
  constexpr int chains = rows == 1 ? 4 : 2;  // sums of one row, so that additions do not wait for each other
  for (int64_t j = 0; j < columns; ++j) {
    const H* row = b + j * b_step;
    F32 sums[rows][chains];
    for (int m = 0; m < rows; ++m) {
      for (int c = 0; c < chains; ++c) sums[m][c] = splat(0.0f);
    }
    int64_t i = 0;
    for (; i + chains * lanes <= k; i += chains * lanes) {
      for (int c = 0; c < chains; ++c) {
        const F32 v = load(row + i + c * lanes);
        for (int m = 0; m < rows; ++m) sums[m][c] = fma(v, load(a + m * a_step + i + c * lanes), sums[m][c]);
      }
    }
    for_registers(k - i, [&](int64_t at, int64_t count) {
      const F32 v = get(row + i + at, count);
      for (int m = 0; m < rows; ++m) sums[m][0] = fma(v, get(a + m * a_step + i + at, count), sums[m][0]);
    });
    for (int m = 0; m < rows; ++m) {
      for (int c = 1; c < chains; ++c) sums[m][0] = sums[m][0] + sums[m][c];
      y[m * y_step + j] = sum(sums[m][0]);
    }
  }
}

template <bool is_across> void of(FloatKind type, const void* b, int64_t b_step, int64_t k, int64_t columns, const float* a,
                                  int64_t a_step, int rows, float* y, int64_t y_step) {
  with_float_type(type, [&]<class H>(const H*) {
    const auto call = [&]<int count>() {
      if constexpr (is_across)
        across_rows<H, count>(static_cast<const H*>(b), b_step, k, columns, a, a_step, y, y_step);
      else
        along_rows<H, count>(static_cast<const H*>(b), b_step, k, columns, a, a_step, y, y_step);
    };
    switch (rows) {
      case 1: return call.template operator()<1>();
      case 2: return call.template operator()<2>();
      case 3: return call.template operator()<3>();
      default: return call.template operator()<4>();
    }
  });
}

}  // namespace

const ops::matmul::SkinnyTable& skinny_table() {
  static constexpr ops::matmul::SkinnyTable table = {of<true>, of<false>};
  return table;
}

}  // namespace smelt::SMELT_ISA
