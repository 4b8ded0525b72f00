// Softmax a register at a time. Rows end in a register of their own, filled up with -infinity: its exponential adds nothing. Columns
// need no sum over lanes: a register holds as many columns.
#include "ops/softmax/simd/softmax.h"

#include <type_traits>

#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/vector.h"

namespace smelt::SMELT_ISA {
namespace {

using simd::FloatKind;

/// Of all lanes; NaNs are left out.
SMELT_INLINE F32 largest_lane(F32 v) {
  return across<float>(
      v.v, [](Vector<float> a, Vector<float> b) __attribute__((always_inline)) { return extreme<true, float>(a, b); });
}
SMELT_INLINE F32 sum_of_lanes(F32 v) {
  return across<float>(
      v.v, [](Vector<float> a, Vector<float> b) __attribute__((always_inline)) { return a + b; });
}

/// v in the lanes from `first` on, or in those below it; -infinity in the others.
SMELT_INLINE F32 from_lane(F32 v, int64_t first) { return first_or(F32(-__builtin_inf()), first, v); }
SMELT_INLINE F32 below_lane(F32 v, int64_t first) { return first_or(v, first, F32(-__builtin_inf())); }
/// What is left of a row behind its whole registers: the end of a register of the row's last elements, or (the row is shorter) the
/// beginning of one.
template <class H> SMELT_INLINE F32 last_register(const H* x, int64_t n) {
  if (n >= lanes) return from_lane(load(x + n - lanes), lanes - n % lanes);
  H all[lanes];
  for (int i = 0; i < lanes; ++i) all[i] = x[i < n ? i : 0];
  return below_lane(load(static_cast<const H*>(all)), n);
}

/// Values become exponentials, of a logarithm shifted values; the sum of the exponentials in its lanes.
template <bool logarithm> SMELT_INLINE F32 exponentials(float* row, int64_t n, F32 top) {
  F32 sums[2] = {F32(0), F32(0)};
  const auto one = [&](int64_t i, F32 & sum) __attribute__((always_inline)) {
    const F32 shifted = load(static_cast<const float*>(row) + i) - top, e = exp_nonpositive(shifted);
    store(row + i, logarithm ? shifted : e);
    sum = sum + e;
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) one(i, sums[0]), one(i + lanes, sums[1]);
  if (i < n) one(i, sums[0]);
  return sums[0] + sums[1];
}

template <bool logarithm> SMELT_INLINE F32 finished(F32 v, F32 end) { return logarithm ? v - end : v * end; }
template <bool logarithm> SMELT_INLINE F32 ending(F32 sum) { return logarithm ? log(sum) : F32(1) / sum; }

template <bool logarithm, class H>
void rows(const H* x, int64_t x_step, H* y, int64_t y_step, int64_t count, int64_t n, float* row) {
  const int64_t whole = n / lanes * lanes, padded = (n + lanes - 1) / lanes * lanes;
  for (int64_t r = 0; r < count; ++r, x += x_step, y += y_step) {
    F32 tops[2] = {F32(-__builtin_inf()), F32(-__builtin_inf())};
    const auto take = [&](int64_t i, F32 v, F32 & top) __attribute__((always_inline)) {
      store(row + i, v);
      top = raw_max(v, top);
    };
    int64_t i = 0;
    for (; i + 2 * lanes <= whole; i += 2 * lanes) take(i, load(x + i), tops[0]), take(i + lanes, load(x + i + lanes), tops[1]);
    if (i < whole) take(i, load(x + i), tops[0]);
    if (whole < n) take(whole, last_register(x, n), tops[1]);
    const F32 sum = exponentials<logarithm>(row, padded, largest_lane(raw_max(tops[0], tops[1])));
    const F32 end = ending<logarithm>(sum_of_lanes(sum));
    const float* values = row;
    if (n < lanes) {
      store_first(y, finished<logarithm>(load(values), end), n);
      continue;
    }
    // Lanes of the last register that another one holds are written over by it.
    if (whole < n) store(y + n - lanes, finished<logarithm>(load(values + whole), end));
    for (int64_t k = 0; k < whole; k += lanes) store(y + k, finished<logarithm>(load(values + k), end));
  }
}

/// Rows of at least a register of f32, which need no memory between: x is read again, also where y lies there.
template <bool logarithm> void float_rows(const float* x, int64_t x_step, float* y, int64_t y_step, int64_t count, int64_t n) {
  const int64_t whole = n / lanes * lanes, left = n - whole;
  for (int64_t r = 0; r < count; ++r, x += x_step, y += y_step) {
    F32 tops[2] = {load(x), load(x + n - lanes)};
    int64_t i = 0;
    for (; i + 2 * lanes <= whole; i += 2 * lanes)
      for (int u = 0; u < 2; ++u) tops[u] = raw_max(load(x + i + u * lanes), tops[u]);
    if (i < whole) tops[0] = raw_max(load(x + i), tops[0]);
    const F32 top = largest_lane(raw_max(tops[0], tops[1]));
    F32 sums[2] = {F32(0), F32(0)};
    const auto one = [&](int64_t k, F32 & sum) __attribute__((always_inline)) {
      const F32 e = exp_nonpositive(load(x + k) - top);
      if (!logarithm) store(y + k, e);
      sum = sum + e;
    };
    for (i = 0; i + 2 * lanes <= whole; i += 2 * lanes) one(i, sums[0]), one(i + lanes, sums[1]);
    if (i < whole) one(i, sums[0]);
    if (left > 0) {
      const F32 e = exp_nonpositive(load_first(x + whole, left) - top);
      if (!logarithm) store_first(y + whole, e, left);
      sums[1] = sums[1] + first_or(e, left, F32(0));
    }
    const F32 end = ending<logarithm>(sum_of_lanes(sums[0] + sums[1]));
    const auto finish = [&](F32 v) __attribute__((always_inline)) { return finished<logarithm>(logarithm ? v - top : v, end); };
    const float* from = logarithm ? x : y;
    for (int64_t k = 0; k < whole; k += lanes) store(y + k, finish(load(from + k)));
    if (left > 0) store_first(y + whole, finish(load_first(from + whole, left)), left);
  }
}

/// `registers` times as many columns as a register has lanes, or (registers 1) some of those.
template <bool logarithm, int registers, class H>
void columns_at_once(const H* x, int64_t x_step, H* y, int64_t y_step, int64_t n, int64_t count, float* scratch) {
  F32 tops[registers], sums[registers];
  for (int c = 0; c < registers; ++c) tops[c] = F32(-__builtin_inf()), sums[c] = F32(0);
  float* row = scratch;
  for (int64_t k = 0; k < n; ++k, x += x_step, row += registers * lanes) {
    for (int c = 0; c < registers; ++c) {
      const F32 v = registers == 1 ? get(x, count) : load(x + c * lanes);
      store(row + c * lanes, v);
      tops[c] = raw_max(v, tops[c]);
    }
  }
  // A long column's parts are summed apart: the error of a sum grows with the number of its terms.
  constexpr int64_t part = 64;
  row = scratch;
  for (int64_t begin = 0; begin < n; begin += part) {
    F32 partial[registers];
    for (int c = 0; c < registers; ++c) partial[c] = F32(0);
    for (int64_t k = begin; k < n && k < begin + part; ++k, row += registers * lanes) {
      for (int c = 0; c < registers; ++c) {
        const F32 shifted = load(static_cast<const float*>(row) + c * lanes) - tops[c], e = exp_nonpositive(shifted);
        store(row + c * lanes, logarithm ? shifted : e);
        partial[c] = partial[c] + e;
      }
    }
    for (int c = 0; c < registers; ++c) sums[c] = sums[c] + partial[c];
  }
  for (int c = 0; c < registers; ++c) sums[c] = ending<logarithm>(sums[c]);
  const float* values = scratch;
  for (int64_t k = 0; k < n; ++k, y += y_step, values += registers * lanes) {
    for (int c = 0; c < registers; ++c) {
      const F32 v = finished<logarithm>(load(values + c * lanes), sums[c]);
      if (registers == 1)
        put(y, v, count);
      else
        store(y + c * lanes, v);
    }
  }
}

template <bool logarithm, class H>
void columns(const H* x, int64_t x_step, H* y, int64_t y_step, int64_t count, int64_t n, float* scratch) {
  constexpr int64_t step = ops::softmax_columns;
  int64_t c = 0;
  for (; c + step <= count; c += step) columns_at_once<logarithm, step / lanes>(x + c, x_step, y + c, y_step, n, step, scratch);
  for (; c < count; c += lanes)
    columns_at_once<logarithm, 1>(x + c, x_step, y + c, y_step, n, count - c < lanes ? count - c : lanes, scratch);
}

/// Rows that are shorter than a register become columns, and these rows again: a register then holds one element of as many rows.
template <bool logarithm, class H>
void short_rows(const H* x, int64_t x_step, H* y, int64_t y_step, int64_t count, int64_t n, float* scratch) {
  constexpr int64_t most = ops::softmax_columns;
  float* turned = scratch + ops::column_floats(n);
  for (; count > 0; count -= most, x += most * x_step, y += most * y_step) {
    const int64_t some = count < most ? count : most;
    float row[lanes];
    for (int64_t i = 0; i < some; ++i) {
      if constexpr (sizeof(H) == sizeof(float)) {
        for (int64_t k = 0; k < n; ++k) turned[k * most + i] = x[i * x_step + k];
      } else {
        store(row, load_first(x + i * x_step, n));
        for (int64_t k = 0; k < n; ++k) turned[k * most + i] = row[k];
      }
    }
    columns<logarithm, float>(turned, most, turned, most, some, n, scratch);
    for (int64_t i = 0; i < some; ++i) {
      if constexpr (sizeof(H) == sizeof(float)) {
        for (int64_t k = 0; k < n; ++k) y[i * y_step + k] = turned[k * most + i];
      } else {
        for (int64_t k = 0; k < n; ++k) row[k] = turned[k * most + i];
        store_first(y + i * y_step, load(static_cast<const float*>(row)), n);
      }
    }
  }
}

void any_rows(FloatKind t, const void* x, int64_t x_step, void* y, int64_t y_step, int64_t count, int64_t n, float* scratch,
              bool logarithm) {
  with_float_type(t, [&]<class H>(const H*) {
    if constexpr (std::is_same_v<H, float>) {
      if (n >= lanes)
        return (logarithm ? float_rows<true> : float_rows<false>)(static_cast<const float*>(x), x_step, static_cast<float*>(y),
                                                                  y_step, count, n);
    }
    const auto of_rows = n < lanes && count > 1 ? (logarithm ? short_rows<true, H> : short_rows<false, H>)
                                                : (logarithm ? rows<true, H> : rows<false, H>);
    of_rows(static_cast<const H*>(x), x_step, static_cast<H*>(y), y_step, count, n, scratch);
  });
}

void any_columns(FloatKind t, const void* x, int64_t x_step, void* y, int64_t y_step, int64_t count, int64_t n, float* scratch,
                 bool logarithm) {
  with_float_type(t, [&]<class H>(const H*) {
    (logarithm ? columns<true, H> : columns<false, H>)(static_cast<const H*>(x), x_step, static_cast<H*>(y), y_step, count, n,
                                                       scratch);
  });
}

}  // namespace

const ops::SoftmaxSimd& softmax_simd() {
  static constexpr ops::SoftmaxSimd table = {any_rows, any_columns};
  return table;
}

}  // namespace smelt::SMELT_ISA
