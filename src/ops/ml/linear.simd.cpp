#include "ops/ml/simd/linear.h"

#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/vector.h"

namespace smelt::SMELT_ISA {
namespace {

constexpr int rows_at_once = width<float>;  // their sums become one register
constexpr int64_t part = 1024;              // products

/// The products of `n` weights with each row's elements, added up.
SMELT_INLINE Vector<float> sums_of(const float* const* rows, const float* weights, int64_t n) {
  Vector<float> sums[rows_at_once] = {};
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    const Vector<float> w = load_vector(weights + k);
    for (int r = 0; r < rows_at_once; ++r) sums[r] += load_vector(rows[r] + k) * w;
  }
  if (k < n) {
    const Vector<float> w = load_first(weights + k, n - k).v;
    for (int r = 0; r < rows_at_once; ++r) sums[r] += Vector<float>(load_first(rows[r] + k, n - k).v) * w;
  }
  return across_each<float>(
      sums, [](Vector<float> a, Vector<float> b) __attribute__((always_inline)) { return a + b; });
}

void scores(const float* x, int64_t rows, int64_t features, const float* weights, const float* offsets, int64_t targets,
            float* y) {
  for (int64_t r = 0; r < rows; r += rows_at_once) {
    const int64_t some = rows - r < rows_at_once ? rows - r : rows_at_once;
    for (int64_t t = 0; t < targets; ++t) {
      double totals[rows_at_once];
      for (double& total : totals) total = static_cast<double>(offsets[t]);
      for (int64_t k = 0; k < features; k += part) {
        const float* each[rows_at_once];
        for (int i = 0; i < rows_at_once; ++i) each[i] = x + (i < some ? i : some - 1) * features + k;
        float sums[rows_at_once];
        store_vector(sums, sums_of(each, weights + t * features + k, features - k < part ? features - k : part));
        for (int i = 0; i < rows_at_once; ++i) totals[i] += static_cast<double>(sums[i]);
      }
      for (int64_t i = 0; i < some; ++i) y[i * targets + t] = static_cast<float>(totals[i]);
    }
    x += some * features;
    y += some * targets;
  }
}

void each_logistic(float* x, int64_t n) {
  for_registers(n, [&](int64_t i, int64_t count) { put(x + i, F32(1) / (F32(1) + exp(-get(x + i, count))), count); });
}

}  // namespace

ops::LinearScores linear_scores() { return scores; }
ops::Logistic logistic() { return each_logistic; }

}  // namespace smelt::SMELT_ISA
