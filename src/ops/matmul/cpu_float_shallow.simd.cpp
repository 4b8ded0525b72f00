#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"
#include "ops/matmul/simd/float_shallow.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::matmul::FloatShallow;
using simd::FloatKind;

/// Sums of `rows` rows by `wide` registers of columns, from column j on; put(row, register, sums) for each.
template <int rows, int wide, class Put> SMELT_INLINE void tile(const FloatShallow& p, const float* a, int64_t j, Put&& put) {
  F32 s[rows][wide];
  SMELT_UNROLL
  for (int w = 0; w < wide; ++w) {
    const F32 start = p.bias ? load(p.bias + j + w * lanes) : splat(0.0f);
    SMELT_UNROLL
    for (int r = 0; r < rows; ++r) s[r][w] = start;
  }
  for (int64_t k = 0; k < p.k; ++k) {
    F32 v[wide];
    SMELT_UNROLL
    for (int w = 0; w < wide; ++w) v[w] = load(p.b + k * p.b_step + j + w * lanes);
    SMELT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const F32 x = splat(a[r * p.k + k]);
      SMELT_UNROLL
      for (int w = 0; w < wide; ++w) s[r][w] = fma(x, v[w], s[r][w]);
    }
  }
  const F32 low = splat(p.low), high = splat(p.high);
  SMELT_UNROLL
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < wide; ++w) put(r, w, raw_min(high, raw_max(low, s[r][w])));  // a NaN stays one
}

/// So many rows; there are as many columns as a register has. The last ones are those of the last whole register once more.
template <class H, int rows> SMELT_INLINE void some_rows(const FloatShallow& p, const float* a, H* y) {
  int64_t j = 0;
  for (; j + 2 * lanes <= p.columns; j += 2 * lanes)
    tile<rows, 2>(p, a, j, [&](int r, int w, F32 v) { store(y + r * p.y_step + j + w * lanes, v); });
  const auto one = [&](int64_t at) { tile<rows, 1>(p, a, at, [&](int r, int, F32 v) { store(y + r * p.y_step + at, v); }); };
  if (j + lanes <= p.columns) one(j), j += lanes;
  if (j < p.columns) one(p.columns - lanes);
}

/// Rows shorter than a register. Where they lie one behind the other, a whole register is stored, and the next rows go over what was too
/// much.
template <class H> void short_rows(const FloatShallow& p, H* y) {
  constexpr int rows = 4;
  const bool follow = p.y_step == p.columns;
  const float* a = p.a;
  int64_t left = p.rows;  // rows
  const auto put = [&](H* to, F32 v, int64_t rows_left) {
    if (follow && rows_left * p.columns >= lanes)
      store(to, v);
    else
      store_first(to, v, p.columns);
  };
  for (; left >= rows; left -= rows, a += rows * p.k, y += rows * p.y_step)
    tile<rows, 1>(p, a, 0, [&](int r, int, F32 v) { put(y + r * p.y_step, v, left - r); });
  for (; left > 0; --left, a += p.k, y += p.y_step) tile<1, 1>(p, a, 0, [&](int, int, F32 v) { put(y, v, left); });
}

template <class H> void multiply_into(const FloatShallow& p, H* y) {
  if (p.columns < lanes) return short_rows(p, y);
  constexpr int64_t rows = 4;
  const float* a = p.a;
  int64_t left = p.rows;
  for (; left >= rows; left -= rows, a += rows * p.k, y += rows * p.y_step) some_rows<H, rows>(p, a, y);
  for (; left > 0; --left, a += p.k, y += p.y_step) some_rows<H, 1>(p, a, y);
}

/// Columns that lie one behind the other, each with its k elements: as many at a time as a register has lanes, turned.
template <class H>
int64_t pack_turned(float* to, int64_t step, const H* from, int64_t k, int64_t columns, int64_t column, F32 alpha) {
  const H* end = from + (columns - 1) * column + k;
  int64_t n = 0;
  for (; n + lanes <= columns; n += lanes)
    for (int64_t at = 0; at < k; at += lanes) {
      F32 turned[lanes];
      SMELT_UNROLL
      for (int64_t r = 0; r < lanes; ++r) {
        const H* row = from + (n + r) * column + at;  // elements behind its last one are the next row's
        turned[r] = row + lanes <= end ? load(row) : get(row, k - at < lanes ? k - at : int64_t{lanes});
      }
      transpose(turned);
      SMELT_UNROLL
      for (int64_t i = 0; i < lanes; ++i)
        if (at + i < k) store(to + (at + i) * step + n, turned[i] * alpha);
    }
  return n;
}

template <class H>
void pack_from(float* to, int64_t step, const H* from, int64_t k, int64_t columns, int64_t row, int64_t column, float alpha) {
  const F32 by = splat(alpha), none = splat(0.0f);
  const int64_t made = row == 1 && column != 1 ? pack_turned(to, step, from, k, columns, column, by) : 0;
  for (int64_t i = 0; i < k; ++i) {
    float* line = to + i * step;
    if (column == 1) {
      for_registers(columns, [&](int64_t n, int64_t count) { store(line + n, get(from + i * row + n, count) * by); });
    } else {
      for (int64_t n = made; n < columns; n += lanes) {
        H together[lanes] = {};
        for (int64_t l = 0; l < lanes && n + l < columns; ++l) together[l] = from[i * row + (n + l) * column];
        store(line + n, load(together) * by);
      }
    }
    for (int64_t n = (columns + lanes - 1) / lanes * lanes; n < step; n += lanes) store(line + n, none);
  }
}

void pack(FloatKind type, float* to, int64_t step, const void* from, int64_t k, int64_t columns, int64_t row, int64_t column,
          float alpha) {
  with_float_type(type,
                  [&]<class H>(const H*) { pack_from(to, step, static_cast<const H*>(from), k, columns, row, column, alpha); });
}

void multiply(FloatKind type, const FloatShallow& p) {
  with_float_type(type, [&]<class H>(const H*) { multiply_into(p, static_cast<H*>(p.y)); });
}

}  // namespace

const ops::matmul::FloatShallowTable& float_shallow() {
  static constexpr ops::matmul::FloatShallowTable table = {pack, multiply};
  return table;
}

}  // namespace smelt::SMELT_ISA
