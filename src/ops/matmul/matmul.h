// Matrix products with numpy's batch broadcasting: geometry and loops.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/core/operator.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {

/// y[batch, m, n] = a[batch, m, k] * b[batch, k, n]; strides in elements, 0 where an operand repeats along a batch axis.
struct MatMulProblem {
  int64_t m = 1, k = 1, n = 1;
  Shape batch, a_batch, b_batch;  // extents, and strides of a and b along them
  int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1;
  Shape y;  // as the operator gives it: without the axis of a 1-D operand
};

/// Throws Error with the expected and the found when the shapes do not multiply.
MatMulProblem matmul_problem(Shape a, Shape b, bool trans_a = false, bool trans_b = false);

/// Calls f(y offset, sums) for every row of n sums, accumulated in Acc: for several rows at a time.
template <class Acc, class A, class B, class F> void multiply(const MatMulProblem& p, const A* a, const B* b, F&& f) {
  const int64_t rows = elements(p.batch) * p.m;
  const int threads = useful_threads(threads::team_threads(), rows * p.n * p.k);
  std::vector<Acc> all(static_cast<size_t>(threads * p.n));
  parallel(threads, rows, 1, [&](int64_t begin, int64_t end, int thread) {
    const std::span<Acc> sums(all.data() + thread * p.n, static_cast<size_t>(p.n));
    for (int64_t r = begin; r < end; ++r) {
      int64_t a_at = 0, b_at = 0, rest = r / p.m;
      for (size_t d = p.batch.size(); d-- > 0; rest /= p.batch[d]) {
        a_at += rest % p.batch[d] * p.a_batch[d];
        b_at += rest % p.batch[d] * p.b_batch[d];
      }
      const A* row = a + a_at + r % p.m * p.a_row;
      std::ranges::fill(sums, Acc{});
      if (p.b_col == 1) {  // rows of b are contiguous: add multiples of them
        for (int64_t k = 0; k < p.k; ++k) {
          const Acc factor = static_cast<Acc>(row[k * p.a_col]);
          const B* from = b + b_at + k * p.b_row;
          Acc* to = sums.data();
          for (int64_t j = 0; j < p.n; ++j) to[j] += factor * static_cast<Acc>(from[j]);
        }
      } else {  // columns are: scalar products
        for (int64_t j = 0; j < p.n; ++j) {
          const B* from = b + b_at + j * p.b_col;
          Acc sum{};
          for (int64_t k = 0; k < p.k; ++k) sum += static_cast<Acc>(row[k * p.a_col]) * static_cast<Acc>(from[k * p.b_row]);
          sums[static_cast<size_t>(j)] = sum;
        }
      }
      f(r * p.n, sums.data());
    }
  });
}

/// The same of integers: sums wrap, as kernels' do.
template <class F> void multiply_integers(const MatMulProblem& p, const int32_t* a, const int32_t* b, F&& f) {
  multiply<uint32_t>(p, a, b, [&](int64_t at, const uint32_t* sums) { f(at, reinterpret_cast<const int32_t*>(sums)); });
}

}  // namespace smelt::ops
