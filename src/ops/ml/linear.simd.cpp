#include "ops/ml/simd/linear.h"

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

void scores_across(const float* x, int64_t rows, int64_t features, const float* turned, const float* offsets, int64_t targets,
                   float* y) {
  constexpr int64_t step = ops::linear_columns;
  const int64_t columns = (targets + step - 1) / step * step;
  for (int64_t r = 0; r < rows; ++r, x += features, y += targets) {
    for (int64_t t = 0; t < targets; t += lanes) {
      F32 sum = load(offsets + t);
      for (int64_t k = 0; k < features; ++k) sum = fma(splat(x[k]), load(turned + k * columns + t), sum);
      put(y + t, sum, targets - t < lanes ? targets - t : lanes);
    }
  }
}

void each_logistic(float* x, int64_t n) {
  for_registers(n, [&](int64_t i, int64_t count) { put(x + i, F32(1) / (F32(1) + exp(-get(x + i, count))), count); });
}

}  // namespace

const ops::LinearSimd& linear_simd() {
  static constexpr ops::LinearSimd table = {scores, scores_across, each_logistic};
  return table;
}

}  // namespace smelt::SMELT_ISA
