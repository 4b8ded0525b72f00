// Inverse (com.microsoft).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/stop.h"
#include "ops/core/float_reference.h"
#include "ops/core/list_inputs.h"
#include "ops/einsum/inverse.h"

namespace smelt::ops {
namespace {

void infer_inverse(InferContext& c) {
  if (!is_float(type_of(c, 0))) fail("input 0 has type {}, expected floats", name(c.in(0).type));
  if (c.in(0).shape_known) {
    const Shape& s = c.shape(0);
    if (s.size() < 2 || s[s.size() - 1] != s[s.size() - 2])
      fail("the input has shape {}, expected square matrices", to_string(s));
  }
  same_as(c, 0, 0);
}

/// Gauss-Jordan elimination with the largest pivot of each column: `m` [n, 2 n], a matrix beside the identity, becomes the identity
/// beside its inverse. False where it has none.
bool invert(std::vector<double>& m, size_t n) {
  const auto row = [&](size_t r) { return m.begin() + static_cast<std::ptrdiff_t>(r * 2 * n); };
  for (size_t column = 0; column < n; ++column) {
    check_stop();
    size_t pivot = column;
    for (size_t r = column + 1; r < n; ++r)
      if (std::abs(m[r * 2 * n + column]) > std::abs(m[pivot * 2 * n + column])) pivot = r;
    const double value = m[pivot * 2 * n + column];
    if (value == 0) return false;
    if (pivot != column) std::swap_ranges(row(pivot), row(pivot + 1), row(column));
    for (size_t k = 0; k < 2 * n; ++k) m[column * 2 * n + k] /= value;
    for (size_t r = 0; r < n; ++r) {
      const double factor = m[r * 2 * n + column];
      if (r == column || factor == 0) continue;
      for (size_t k = column; k < 2 * n; ++k) m[r * 2 * n + k] -= factor * m[column * 2 * n + k];
    }
  }
  return true;
}

void run_inverse(ComputeContext& context) {
  in_float(context, [](ComputeContext& c, auto zero) {
    using T = decltype(zero);
    const size_t n = static_cast<size_t>(c.in(0).shape().back());
    const int64_t count = n == 0 ? 0 : c.in(0).size() / static_cast<int64_t>(n * n);
    std::vector<double> m(2 * n * n);
    for (int64_t i = 0; i < count; ++i) {
      const T* x = c.in(0).data<T>() + static_cast<size_t>(i) * n * n;
      T* y = c.outputs[0].data<T>() + static_cast<size_t>(i) * n * n;
      for (size_t r = 0; r < n; ++r)
        for (size_t k = 0; k < n; ++k) {
          m[r * 2 * n + k] = static_cast<double>(x[r * n + k]);
          m[r * 2 * n + n + k] = r == k;
        }
      if (!invert(m, n)) fail("matrix {} has no inverse", i);
      for (size_t r = 0; r < n; ++r)
        for (size_t k = 0; k < n; ++k) y[r * n + k] = static_cast<T>(m[r * 2 * n + n + k]);
    }
  });
}

}  // namespace

std::span<const OpRow> inverse_ops() {
  static constexpr OpRow table[] = {
      {{"Inverse", microsoft_domain, infer_inverse, run_inverse}, {.autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops
