// What evaluate_f64 shares: products in double, on threads. Whole models are 0.5 to 1.3 TFLOP a run.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/cpu/wide/gemm.h"

namespace smelt::ops::f64 {

/// As wide::Gemm, with memory of its own. At most `threads` threads share the work.
void gemm(int64_t m, int64_t n, int64_t k, wide::Matrix a, wide::Matrix b, double* c, int64_t c_row, int threads);

/// Calls f(i) for every i in [0, n), on at most `threads` threads; f must not throw.
void parallel_for(int64_t n, int threads, const std::function<void(int64_t)>& f);

/// Threads that this process may use.
int available_threads();

}  // namespace smelt::ops::f64
