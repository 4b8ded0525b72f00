#include "ops/ml/simd/linear.h"

#include <cmath>

#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/vector.h"

namespace smelt::SMELT_ISA {
namespace {

constexpr int at_once = width<float>;  // sums that become one register
constexpr int64_t part = 1024;         // products

/// The products of n elements of each line with those of `one`, added up.
SMELT_INLINE Vector<float> sums_of(const float* const* lines, const float* one, int64_t n) {
  Vector<float> sums[at_once] = {};
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    const Vector<float> v = load_vector(one + k);
    for (int i = 0; i < at_once; ++i) sums[i] += load_vector(lines[i] + k) * v;
  }
  if (k < n) {
    const Vector<float> v = load_first(one + k, n - k).v;
    for (int i = 0; i < at_once; ++i) sums[i] += Vector<float>(load_first(lines[i] + k, n - k).v) * v;
  }
  return across_each<float>(
      sums, [](Vector<float> a, Vector<float> b) __attribute__((always_inline)) { return a + b; });
}

/// The products of `one` with `some` of the lines that lie side by side, of n elements each.
SMELT_INLINE void products(const float* lines, int64_t some, const float* one, int64_t n, double* totals) {
  for (int i = 0; i < at_once; ++i) totals[i] = 0;
  for (int64_t k = 0; k < n; k += part) {
    const float* each[at_once];
    for (int i = 0; i < at_once; ++i) each[i] = lines + (i < some ? i : some - 1) * n + k;
    float sums[at_once];
    store_vector(sums, sums_of(each, one + k, n - k < part ? n - k : part));
    for (int i = 0; i < at_once; ++i) totals[i] += static_cast<double>(sums[i]);
  }
}

SMELT_INLINE int64_t registers_of(int64_t n) { return (n + at_once - 1) / at_once; }

/// A register holds the scores of as many rows, or, where they are few, of as many targets.
void scores(const float* x, int64_t rows, int64_t features, const float* weights, const float* offsets, int64_t targets,
            float* y) {
  double totals[at_once];
  if (rows * registers_of(targets) < targets * registers_of(rows)) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t t = 0; t < targets; t += at_once) {
        const int64_t some = targets - t < at_once ? targets - t : at_once;
        products(weights + t * features, some, x + r * features, features, totals);
        for (int64_t i = 0; i < some; ++i)
          y[r * targets + t + i] = static_cast<float>(static_cast<double>(offsets[t + i]) + totals[i]);
      }
    return;
  }
  for (int64_t r = 0; r < rows; r += at_once) {
    const int64_t some = rows - r < at_once ? rows - r : at_once;
    for (int64_t t = 0; t < targets; ++t) {
      products(x + r * features, some, weights + t * features, features, totals);
      for (int64_t i = 0; i < some; ++i)
        y[(r + i) * targets + t] = static_cast<float>(static_cast<double>(offsets[t]) + totals[i]);
    }
  }
}

/// Of `rows` rows and `registers` of targets side by side: sums that do not wait for one another, by weights that are loaded once.
template <int rows, int registers> SMELT_INLINE void across_tile(const float* x, int64_t features, const float* turned,
                                                                 int64_t columns, const float* offsets, int64_t left, float* y,
                                                                 int64_t targets) {
  F32 sums[rows][registers];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < registers; ++c) sums[r][c] = load(offsets + c * lanes);
  }
  for (int64_t k = 0; k < features; ++k) {
    F32 w[registers];
#pragma GCC unroll 2
    for (int c = 0; c < registers; ++c) w[c] = load(turned + k * columns + c * lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const F32 v = splat(x[r * features + k]);
#pragma GCC unroll 2
      for (int c = 0; c < registers; ++c) sums[r][c] = fma(v, w[c], sums[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < registers; ++c) {
      const int64_t count = left - c * lanes;
      if (count > 0) put(y + r * targets + c * lanes, sums[r][c], count < lanes ? count : lanes);
    }
  }
}

template <int rows> SMELT_INLINE void across_rows(const float* x, int64_t features, const float* turned, const float* offsets,
                                                  int64_t targets, float* y) {
  constexpr int64_t step = ops::linear_columns;
  const int64_t columns = (targets + step - 1) / step * step;
  int64_t t = 0;
  for (; targets - t > lanes && t + 2 * lanes <= columns; t += 2 * lanes)
    across_tile<rows, 2>(x, features, turned + t, columns, offsets + t, targets - t, y + t, targets);
  for (; t < targets; t += lanes)
    across_tile<rows, 1>(x, features, turned + t, columns, offsets + t, targets - t, y + t, targets);
}

void scores_across(const float* x, int64_t rows, int64_t features, const float* turned, const float* offsets, int64_t targets,
                   float* y) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) across_rows<4>(x + r * features, features, turned, offsets, targets, y + r * targets);
  for (; r < rows; ++r) across_rows<1>(x + r * features, features, turned, offsets, targets, y + r * targets);
}

void each_logistic(float* x, int64_t n) {
  for_registers(n, [&](int64_t i, int64_t count) { put(x + i, F32(1) / (F32(1) + exp(-get(x + i, count))), count); });
}

/// Of `rows` rows and `registers` of vectors side by side: the sums of n features, added to y where it has some already.
template <bool distances, int rows, int registers> SMELT_INLINE void support_tile(const float* x, int64_t features, int64_t n,
                                                                                  const float* turned, int64_t columns, float* y,
                                                                                  bool adds) {
  F32 sums[rows][registers] = {};
  for (int64_t k = 0; k < n; ++k) {
    F32 w[registers];
#pragma GCC unroll 4
    for (int c = 0; c < registers; ++c) w[c] = load(turned + k * columns + c * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const F32 v = splat(x[r * features + k]);
#pragma GCC unroll 4
      for (int c = 0; c < registers; ++c) {
        const F32 d = v - w[c];
        sums[r][c] = distances ? fma(d, d, sums[r][c]) : fma(v, w[c], sums[r][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < registers; ++c) {
      float* to = y + r * columns + c * lanes;
      put(to, adds ? load(to) + sums[r][c] : sums[r][c], lanes);
    }
}

template <bool distances>
void support_sums(const float* x, int64_t rows, int64_t features, const float* turned, int64_t columns, float* y) {
  constexpr int registers = ops::linear_columns / lanes, at_a_time = 8 / registers;
  constexpr int64_t block = 256;  // features, whose sums are added up by themselves
  for (int64_t k = 0; k < features; k += block) {
    const int64_t n = features - k < block ? features - k : block;
    for (int64_t c = 0; c < columns; c += ops::linear_columns) {
      const float* w = turned + k * columns + c;
      int64_t r = 0;
      for (; r + at_a_time <= rows; r += at_a_time)
        support_tile<distances, at_a_time, registers>(x + r * features + k, features, n, w, columns, y + r * columns + c, k > 0);
      for (; r < rows; ++r)
        support_tile<distances, 1, registers>(x + r * features + k, features, n, w, columns, y + r * columns + c, k > 0);
    }
  }
}

SMELT_INLINE F32 whole_power(F32 x, int n) {
  F32 y = F32(1);
  for (; n > 0; n >>= 1, x = x * x)
    if (n & 1) y = y * x;
  return y;
}

void support_values(const ops::SvmForm& form, const float* x, int64_t rows, int64_t features, const float* turned,
                    int64_t columns, float* y) {
  if (form.of_distances)
    support_sums<true>(x, rows, features, turned, columns, y);
  else
    support_sums<false>(x, rows, features, turned, columns, y);
  const F32 gamma = splat(form.gamma), offset = splat(form.offset);
  const auto each = [&](const auto& f) {
    for (int64_t i = 0; i < rows * columns; i += lanes) put(y + i, f(load(y + i)), lanes);
  };
  constexpr float most = 16;
  const bool whole = form.degree >= 0 && form.degree <= most && form.degree == static_cast<float>(static_cast<int>(form.degree));
  switch (form.kind) {
    case ops::SvmForm::product: break;
    case ops::SvmForm::power:
      if (whole) {
        each([&](F32 p) { return whole_power(fma(gamma, p, offset), static_cast<int>(form.degree)); });
      } else {
        for (int64_t i = 0; i < rows * columns; ++i) y[i] = std::pow(form.gamma * y[i] + form.offset, form.degree);
      }
      break;
    case ops::SvmForm::exponential: each([&](F32 p) { return exp(gamma * p); }); break;
    case ops::SvmForm::tangent: each([&](F32 p) { return tanh(fma(gamma, p, offset)); }); break;
  }
}

}  // namespace

const ops::LinearSimd& linear_simd() {
  static constexpr ops::LinearSimd table = {scores, scores_across, support_values, each_logistic};
  return table;
}

}  // namespace smelt::SMELT_ISA
