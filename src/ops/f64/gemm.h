// A blocked, threaded matrix product in double, for evaluate_f64: whole models are 0.5 to 1.3 TFLOP a run.
// Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): panels of both operands are
// packed so that the innermost kernel reads them in order, from cache. AVX2 and FMA are used where the CPU has them.
#pragma once

#include <cstdint>
#include <functional>

namespace smelt::ops::f64 {

/// Element (i, j) is data[i * row + j * column].
struct Matrix {
  const double* data;
  int64_t row, column;
};

/// c[m, n] = a[m, k] · b[k, n]; c is row-major with `c_row` elements from row to row, and overlaps neither operand.
/// k = 0 gives zeros. At most `threads` threads share the work.
void gemm(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, double* c, int64_t c_row, int threads);

/// Calls f(i) for every i in [0, n), on at most `threads` threads; f must not throw.
void parallel_for(int64_t n, int threads, const std::function<void(int64_t)>& f);

/// Threads that this process may use.
int available_threads();

}  // namespace smelt::ops::f64
