#include "expr/simd/vec.h"
#include "ops/einsum/simd/inverse.h"

namespace smelt::SMELT_ISA {
namespace {

void swap(double* __restrict a, double* __restrict b, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const double v = a[k];
    a[k] = b[k], b[k] = v;
  }
}

void subtract(double* __restrict to, const double* __restrict own, double factor, int64_t n) {
  for (int64_t k = 0; k < n; ++k) to[k] -= factor * own[k];
}

/// `m` [n, n] becomes its inverse: a column that is done with holds that of the inverse. With the largest pivot of each column; `swaps`:
/// n numbers. False where there is none.
bool invert(double* m, int64_t* swaps, int64_t n) {
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (__builtin_fabs(m[row * n + column]) > __builtin_fabs(m[pivot * n + column])) pivot = row;
    double* own = m + column * n;
    swaps[column] = pivot;
    if (m[pivot * n + column] == 0) return false;
    if (pivot != column) swap(m + pivot * n, own, n);
    const double by = 1 / own[column];
    own[column] = 1;
    for (int64_t k = 0; k < n; ++k) own[k] *= by;
    for (int64_t row = 0; row < n; ++row) {
      if (row == column) continue;
      double* to = m + row * n;
      const double factor = to[column];
      to[column] = 0;
      if (factor != 0) subtract(to, own, factor, n);
    }
  }
  // Rows that changed places are columns of the inverse that do.
  for (int64_t column = n; column-- > 0;)
    if (const int64_t other = swaps[column]; other != column)
      for (int64_t row = 0; row < n; ++row) swap(m + row * n + column, m + row * n + other, 1);
  return true;
}

}  // namespace

ops::InvertFn invert_fn() { return invert; }

}  // namespace smelt::SMELT_ISA
